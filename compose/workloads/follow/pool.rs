//! A pool of threads, as many as there are CPUs, that follows them: the standard library, and three calls of libc.
//!
//!     rustc -O pool.rs

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

#[repr(C)]
struct PollFd {
    fd: i32,
    events: i16,
    revents: i16,
}

extern "C" {
    fn inotify_init1(flags: i32) -> i32;
    fn inotify_add_watch(fd: i32, path: *const std::ffi::c_char, mask: u32) -> i32;
    fn poll(fds: *mut PollFd, count: std::ffi::c_ulong, milliseconds: i32) -> i32;
    fn sched_setaffinity(thread: i32, size: usize, mask: *const u64) -> i32;
}

const IN_NONBLOCK_CLOEXEC: i32 = 0o2004000;
const IN_MOVED_TO: u32 = 0x80;
const IN_ONLYDIR: u32 = 0x0100_0000;
const POLLIN: i16 = 1;

/// What follows a field's name in status.json, up to the end of its value. There is no white space between the tokens,
/// and a quotation mark inside of a text has a backslash before it, so that nothing else can look like a field.
fn field<'a>(status: &'a str, name: &str) -> &'a str {
    let Some(at) = status.find(name) else { return "" };
    let rest = &status[at + name.len()..];
    &rest[..rest.find(['"', '}']).unwrap_or(rest.len())]
}

/// The kernel's list syntax, "0-3,8".
fn parse(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse().ok()?..=last.parse::<usize>().ok().filter(|&last| last < 8192)?);
    }
    Some(cpus)
}

/// All threads of this process, those that are not ours too (of a library, of a run time).
fn move_threads(cpus: &[usize]) {
    let mut mask = [0u64; 8192 / 64];
    for cpu in cpus {
        mask[cpu / 64] |= 1 << (cpu % 64);
    }
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return };
    for thread in threads.flatten() {
        if let Ok(number) = thread.file_name().to_string_lossy().parse() {
            // One that has ended meanwhile is no error; CPUs that are gone again will be told of.
            unsafe { sched_setaffinity(number, size_of_val(&mask), mask.as_ptr()) };
        }
    }
}

struct Worker {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Worker {
    fn start() -> Worker {
        let ends = Arc::new(AtomicBool::new(false));
        let told = ends.clone();
        let thread = thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                std::hint::black_box((0..100_000u64).sum::<u64>());
                thread::sleep(Duration::from_millis(1)); // where a server would wait for its next request
            }
        });
        Worker { ends, thread }
    }
}

struct Pool {
    directory: PathBuf,
    followed: (u64, bool),
    workers: Vec<Worker>,
}

impl Pool {
    /// When the daemon last renewed the lease: while that counts, it vouches for what it wrote.
    fn renewed_at(&self) -> SystemTime {
        let found = fs::symlink_metadata(self.directory.join("lease")).ok().filter(fs::Metadata::is_file);
        found.and_then(|lease| lease.modified().ok()).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    fn look(&mut self) -> Option<()> {
        // The lease first: what is read after it is at least as new.
        let renewed = self.renewed_at();
        let status = fs::read_to_string(self.directory.join("status.json")).ok()?;
        let (cpus_text, leaving_text) = (field(&status, "\"cpus\":\""), field(&status, "\"leaving\":\""));
        let generation = field(&status, "\"generation\":").split(',').next()?.parse().ok()?;
        // No CPUs: nothing can be said just now. Keep what you have.
        let seconds: f64 = field(&status, "\"lease_seconds\":").split(',').next()?.parse().unwrap_or(0.0);
        // If it does not vouch, keep what you have; others may be there by now.
        let vouched = match SystemTime::now().duration_since(renewed) {
            Ok(age) => age.as_secs_f64() <= seconds,
            Err(ahead) => ahead.duration().as_secs_f64() <= 1.0,
        };
        if cpus_text.is_empty() || (generation, vouched) == self.followed {
            return None;
        }
        let (cpus, leaving) = (parse(cpus_text)?, parse(leaving_text)?);
        self.followed = (generation, vouched);
        let note = if leaving.is_empty() { String::new() } else { format!(", leaving {leaving_text}") };
        println!("CPUs {cpus_text}{note}{}", if vouched { "" } else { ", unvouched" });

        let usable: Vec<usize> = cpus.into_iter().filter(|cpu| !leaving.contains(cpu)).collect();
        if usable.is_empty() {
            return None;
        }
        // First leave: workers that are too many end, and all threads move. Then say so.
        let mut surplus = self.workers.split_off(usable.len().min(self.workers.len()));
        surplus.iter().for_each(|worker| worker.ends.store(true, Ordering::Relaxed));
        surplus.drain(..).for_each(|worker| drop(worker.thread.join()));
        move_threads(&usable);
        if !leaving.is_empty() {
            let written = File::create(self.directory.join("ack")).and_then(|mut ack| writeln!(ack, "{generation}"));
            if let Err(error) = written {
                eprintln!("cannot acknowledge: {error}");
            }
        }
        while self.workers.len() < usable.len() {
            self.workers.push(Worker::start()); // it inherits the CPUs of this thread
        }
        Some(())
    }
}

fn directory() -> PathBuf {
    std::env::var_os("CPUSET_SIDECAR_DIR").map(PathBuf::from).unwrap_or_else(|| {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Path::new("/run/cpuset-sidecar/by-id").join(host.trim())
    })
}

fn main() {
    let mut pool = Pool { directory: directory(), followed: (0, false), workers: Vec::new() };
    let path = CString::new(pool.directory.as_os_str().as_encoded_bytes()).expect("a path has no NUL");
    let descriptor = unsafe { inotify_init1(IN_NONBLOCK_CLOEXEC) };
    assert!(descriptor >= 0, "no inotify: {}", std::io::Error::last_os_error());
    let mut news = unsafe { File::from_raw_fd(descriptor) };
    let mut events = [0u8; 4096];
    loop {
        // Again each time: it costs one system call, and finds a directory that was made anew. Then look, so that nothing
        // is missed in between; and besides every ten seconds, since some file systems make no events. A directory that
        // is not there is tried each second.
        let hears = unsafe { inotify_add_watch(news.as_raw_fd(), path.as_ptr(), IN_MOVED_TO | IN_ONLYDIR) } >= 0;
        pool.look();
        let mut heard = PollFd { fd: news.as_raw_fd(), events: POLLIN, revents: 0 };
        unsafe { poll(&mut heard, 1, if hears { 10_000 } else { 1_000 }) };
        while news.read(&mut events).is_ok_and(|size| size > 0) {}
    }
}
