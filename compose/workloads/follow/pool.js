// A pool of worker threads, as many as there are CPUs, that follows them: Node alone, and taskset (util-linux), since Node
// itself cannot say on which CPUs its threads run.
//
//     node pool.js
"use strict";

const { execFileSync } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { Worker, isMainThread } = require("node:worker_threads");

if (!isMainThread) {
  setInterval(() => {
    for (let turn = 0, sum = 0; turn < 100000; turn++) sum += turn;
  }, 10); // where a server would wait for its next request
  return;
}

const directory = process.env.CPUSET_SIDECAR_DIR || path.join("/run/cpuset-sidecar/by-id", os.hostname());
const workers = [];
let followed = "";
let isLooking = false;
let isToLook = false;

/** The kernel's list syntax, "0-3,8". */
function parse(text) {
  return text.split(",").filter(Boolean).flatMap((part) => {
    const [first, last = first] = part.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, index) => first + index);
  });
}

/** When the daemon last renewed the lease, in seconds: while that counts, it vouches for what it wrote. */
function renewedAt() {
  const lease = fs.lstatSync(path.join(directory, "lease"), { throwIfNoEntry: false });
  return lease && lease.isFile() ? lease.mtimeMs / 1000 : 0;
}

async function follow() {
  let told, renewed;
  try {
    renewed = renewedAt(); // the lease first: what is read after it is at least as new
    told = JSON.parse(fs.readFileSync(path.join(directory, "status.json"), "utf8"));
  } catch {
    return; // not there yet, or not any more
  }
  // No CPUs: nothing can be said just now. Keep what you have.
  const age = Date.now() / 1000 - renewed;
  // If it does not vouch, keep what you have; others may be there by now.
  const isVouched = age >= -1 && age <= (told.lease_seconds || 0);
  if (!told.cpus || `${told.generation} ${isVouched}` === followed) return;
  followed = `${told.generation} ${isVouched}`;
  console.log(`CPUs ${told.cpus}${told.leaving ? `, leaving ${told.leaving}` : ""}${isVouched ? "" : ", unvouched"}`);
  const leaving = new Set(parse(told.leaving));
  const usable = parse(told.cpus).filter((cpu) => !leaving.has(cpu));
  if (usable.length === 0) return;

  // First leave: workers that are too many end, and all threads move (-a: those of the pool of libuv too). Then say so.
  await Promise.all(workers.splice(usable.length).map((worker) => worker.terminate()));
  try {
    execFileSync("taskset", ["-acp", usable.join(","), String(process.pid)], { stdio: "ignore" });
    if (told.leaving) fs.writeFileSync(path.join(directory, "ack"), `${told.generation}\n`);
  } catch (error) {
    console.error(String(error)); // a CPU that is gone again: the next change says so
  }
  while (workers.length < usable.length) workers.push(new Worker(__filename)); // a new thread inherits its CPUs
}

/** One at a time, and once more if something happened meanwhile. */
async function look() {
  isToLook = true;
  if (isLooking) return;
  isLooking = true;
  while (isToLook) {
    isToLook = false;
    await follow();
  }
  isLooking = false;
}

/** Listen, then look: what changed before is seen. A directory that is not there yet is tried again. */
function listen() {
  try {
    const watcher = fs.watch(directory, look);
    watcher.on("error", () => {
      watcher.close();
      setTimeout(listen, 1000);
    });
  } catch {
    setTimeout(listen, 1000);
  }
  look();
}

listen();
setInterval(look, 10000); // some file systems make no events
