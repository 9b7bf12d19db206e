// A pool of goroutines, as many as there are CPUs, that follows them: the standard library alone.
//
//	go build pool.go
//
// From 1.25 on the runtime follows the number of CPUs by itself (unless GOMAXPROCS is set), but not which they are.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

type projection struct {
	Generation uint64 `json:"generation"`
	CPUs       string `json:"cpus"`
	Leaving    string `json:"leaving"`
	// LeaseSeconds is how long a renewal of the lease counts.
	LeaseSeconds float64 `json:"lease_seconds"`
}

// renewedAt is when the daemon last renewed the lease: while that counts, it vouches for what it wrote.
func renewedAt(directory string) time.Time {
	if lease, err := os.Lstat(filepath.Join(directory, "lease")); err == nil && lease.Mode().IsRegular() {
		return lease.ModTime()
	}
	return time.Unix(0, 0)
}

// parse reads the kernel's list syntax, "0-3,8".
func parse(text string) (map[int]bool, error) {
	cpus := map[int]bool{}
	for _, part := range strings.Split(text, ",") {
		if part == "" {
			continue
		}
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		low, err := strconv.Atoi(first)
		if err != nil {
			return nil, err
		}
		high, err := strconv.Atoi(last)
		if err != nil || high > 8191 {
			return nil, fmt.Errorf("bad CPU list %q", text)
		}
		for ; low <= high; low++ {
			cpus[low] = true
		}
	}
	return cpus, nil
}

// moveThreads moves all threads of this process. The runtime makes new ones when it likes, and each inherits the CPUs of
// the one that makes it: so it goes over all of them until none had to be moved.
func moveThreads(cpus map[int]bool) {
	var mask, now [8192 / 64]uint64
	for cpu := range cpus {
		mask[cpu/64] |= 1 << (cpu % 64)
	}
	for moved, tries := true, 0; moved && tries < 100; tries++ {
		moved = false
		threads, _ := os.ReadDir("/proc/self/task")
		for _, thread := range threads {
			number, _ := strconv.Atoi(thread.Name())
			size, _, err := syscall.RawSyscall(syscall.SYS_SCHED_GETAFFINITY,
				uintptr(number), unsafe.Sizeof(now), uintptr(unsafe.Pointer(&now)))
			if err != 0 {
				continue // it has ended
			}
			for word := range now[:size/8] {
				if now[word] != mask[word] {
					_, _, err = syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY,
						uintptr(number), unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)))
					moved = moved || err == 0
					break
				}
			}
		}
	}
}

type pool struct {
	directory string
	followed  uint64
	vouched   bool
	workers   []chan struct{} // closed when the worker is to end, which it answers by a message
	ended     chan struct{}
}

func (p *pool) work(ends chan struct{}) {
	for sum := 0; ; {
		select {
		case <-ends:
			p.ended <- struct{}{}
			return
		case <-time.After(time.Millisecond): // where a server would wait for its next request
			for turn := 0; turn < 100000; turn++ {
				sum += turn
			}
		}
	}
}

func (p *pool) look() {
	// The lease first: what is read after it is at least as new.
	renewed := renewedAt(p.directory)
	content, err := os.ReadFile(filepath.Join(p.directory, "status.json"))
	var told projection
	// No CPUs: nothing can be said just now. Keep what you have.
	if err != nil || json.Unmarshal(content, &told) != nil || told.CPUs == "" {
		return
	}
	// If it does not vouch, keep what you have; others may be there by now.
	age := time.Since(renewed).Seconds()
	vouched := age >= -1 && age <= told.LeaseSeconds
	if told.Generation == p.followed && vouched == p.vouched {
		return
	}
	usable, err := parse(told.CPUs)
	leaving, err2 := parse(told.Leaving)
	if err != nil || err2 != nil {
		return
	}
	p.followed, p.vouched = told.Generation, vouched
	note := ""
	if told.Leaving != "" {
		note = ", leaving " + told.Leaving
	}
	if !vouched {
		note += ", unvouched"
	}
	fmt.Printf("CPUs %s%s\n", told.CPUs, note)
	for cpu := range leaving {
		delete(usable, cpu)
	}
	if len(usable) == 0 {
		return
	}
	// First leave: workers that are too many end, and all threads move. Then say so.
	for len(p.workers) > len(usable) {
		close(p.workers[len(p.workers)-1])
		p.workers = p.workers[:len(p.workers)-1]
		<-p.ended
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(len(usable))
	}
	moveThreads(usable)
	if len(leaving) > 0 {
		text := strconv.FormatUint(told.Generation, 10) + "\n"
		if err := os.WriteFile(filepath.Join(p.directory, "ack"), []byte(text), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "cannot acknowledge:", err)
		}
	}
	for len(p.workers) < len(usable) {
		ends := make(chan struct{})
		p.workers = append(p.workers, ends)
		go p.work(ends)
	}
}

func main() {
	p := pool{directory: os.Getenv("CPUSET_SIDECAR_DIR"), ended: make(chan struct{})}
	if p.directory == "" {
		host, _ := os.Hostname()
		p.directory = filepath.Join("/run/cpuset-sidecar/by-id", host)
	}
	descriptor, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		fmt.Fprintln(os.Stderr, "no inotify:", err)
		os.Exit(1)
	}
	// Non-blocking, so that the runtime waits for it without a thread.
	news := os.NewFile(uintptr(descriptor), "inotify")
	heard := make(chan struct{}, 1)
	go func() {
		for events := make([]byte, 4096); ; {
			if _, err := news.Read(events); err != nil {
				return
			}
			select {
			case heard <- struct{}{}:
			default: // it is known already that there is something to look at
			}
		}
	}()
	for {
		// Again each time: it costs one system call, and finds a directory that was made anew. Then look, so that nothing
		// is missed in between; and besides every ten seconds, since some file systems make no events. A directory that
		// is not there is tried each second.
		pause := 10 * time.Second
		if _, err := syscall.InotifyAddWatch(descriptor, p.directory, syscall.IN_MOVED_TO|syscall.IN_ONLYDIR); err != nil {
			pause = time.Second
		}
		p.look()
		select {
		case <-heard:
		case <-time.After(pause):
		}
	}
}
