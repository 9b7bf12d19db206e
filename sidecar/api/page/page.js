// The page: follows the daemon's document, and draws it. It only asks, with GET, and makes text of all that it is told.
//
// 1. What comes is folded into `known`; a frame later, at most once a frame, what differs from what is drawn is drawn.
// 2. Nothing is kept longer than the daemon keeps it: an hour of changes, the present containers.
// 3. Text of others (names, reasons) becomes text nodes, never markup: the policy of the page forbids it, too. What cannot be
//    seen in it, or turns the direction of what follows, is written out where it comes in: no part of the page has it raw.
"use strict";

(() => {
  const LETTERS = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqstuvwxyz"];
  const HOUR = 3600;
  const SILENT_SECONDS = 15; // As long as the daemon's word counts.
  const UNSEEN_MS = 10000; // The time line is redrawn so seldom where it is not in sight.
  const REST_MS = 5000; // A tab that nobody sees for so long rests.
  const SVG = "http://www.w3.org/2000/svg";
  const $ = (id) => document.getElementById(id);

  const known = {
    fields: null, containers: new Map(), vouched: false, skew: 0,
    link: "connecting", since: Date.now(), heard: Date.now(), state: "connecting", told: 0,
    history: null, plan: null, open: new Map(), sort: ["", 1], zoom: { span: null, end: null },
    isUnfolded: false,
  };

  // Small things.

  function make(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === undefined || value === null || value === false) continue;
      if (name === "class") made.className = value;
      else if (name === "on") for (const [type, hear] of Object.entries(value)) made.addEventListener(type, hear);
      else if (name === "css") for (const [key, text] of Object.entries(value)) made.style.setProperty(key, text);
      else made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children.filter((each) => each !== null && each !== undefined && each !== ""));
    return made;
  }

  function draw(tag, attributes, text) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function write(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }

  // As `printable` of `sidecar.log` has it, for logs, `status` and `top`.
  const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}\p{DI}\u2800]|(?! )\p{Zs}/gu;
  const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

  const printable = (text) => text.replace(UNPRINTABLE, (letter) => {
    const code = letter.codePointAt(0), [sign, digits] = code < 256 ? ["x", 2] : code < 65536 ? ["u", 4] : ["U", 8];
    return SHORT[letter] || `\\${sign}${code.toString(16).padStart(digits, "0")}`;
  });

  // JSON with every text in it printable. Most have nothing else in them, which is seen without going through each.
  const parse = (text) => text.search(UNPRINTABLE) < 0 && !/\\[^"\\/]/.test(text) ? JSON.parse(text)
    : JSON.parse(text, (_, value) => typeof value === "string" ? printable(value) : value);

  const foreign = (text) => make("span", { class: "foreign", dir: "auto" }, text);

  const read = new Map(); // Lists that were read lately: the same few come with each update.

  function numbers(list) {
    if (!list) return [];
    let found = read.get(list);
    if (found) return found;
    if (read.size > 2000) read.clear();
    found = [];
    read.set(list, found);
    for (const part of list.split(",")) {
      const [first, last] = part.split("-").map(Number);
      for (let cpu = first; cpu <= (last === undefined ? first : last); cpu++) found.push(cpu);
    }
    return found;
  }

  function list(cpus) {
    const sorted = [...cpus].sort((a, b) => a - b);
    const parts = [];
    for (let at = 0; at < sorted.length; at++) {
      const first = sorted[at];
      while (sorted[at + 1] === sorted[at] + 1) at++;
      parts.push(first === sorted[at] ? `${first}` : `${first}-${sorted[at]}`);
    }
    return parts.join(",");
  }

  const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
  // Live, unvouched, gone or connecting: only of the first one is anything told in the present.
  const isPresent = () => known.state === "live";
  // The present of a daemon that vouches. Of another one, its last word: what came after that is not known.
  const now = () => (isPresent() ? 0 : Math.max(known.told, known.history?.since || 0, known.history?.changes.at(-1)?.at || 0))
    || Date.now() / 1000 + known.skew;
  // Made once: to make one takes longer than to draw a row.
  const [toMinutes, toSeconds] = [{}, { second: "2-digit" }].map((more) => new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", ...more, hourCycle: "h23" }));
  const clock = (seconds, precise) => (precise === false ? toMinutes : toSeconds).format(seconds * 1000);
  const ago = (seconds) => seconds < 100 ? `${Math.max(0, Math.round(seconds))} s` : seconds < 5400
    ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
  const isLive = (phase) => phase === "running" || phase === "paused" || phase === "restarting";
  const cut = (text, most) => [...text].length > most ? `${[...text].slice(0, most - 1).join("")}…` : text;

  // The past tense of what was said in the present, as the commands have it (`sidecar.words.past`).

  const PAST = {
    "asks again": "was to ask again", "that ask": "that asked", "units ask": "units asked", "they come": "they came",
    "nodes stay": "nodes stayed", "containers start": "containers started", "processes run": "processes ran", "gets": "was to get",
    "should": "was to", "must": "had to", "will": "would", "may": "could", "can": "could", "cannot": "could not", "do not": "did not",
    "is": "was", "are": "were", "has": "had", "does": "did", "now": "then", "acknowledges": "acknowledged", "allows": "allowed",
    "applies": "applied", "answers": "answered", "asks": "asked", "balances": "balanced", "begins": "began", "belongs": "belonged",
    "calls": "called", "changes": "changed", "comes": "came", "confines": "confined", "counts": "counted", "decides": "decided",
    "exists": "existed", "follows": "followed", "gives": "gave", "goes": "went", "holds": "held", "isolates": "isolated", "keeps": "kept",
    "knows": "knew", "leaves": "left", "lies": "lay", "lives": "lived", "looks": "looked", "makes": "made", "means": "meant",
    "moves": "moved", "needs": "needed", "redistributes": "redistributed", "replaces": "replaced", "require": "required",
    "requires": "required", "restarts": "restarted", "runs": "ran", "says": "said", "sees": "saw", "shares": "shared",
    "passes": "passed", "stands": "stood", "starts": "started",
    "stays": "stayed", "switches": "switched", "takes": "took", "waits": "waited", "wants": "wanted", "writes": "wrote"
  };
  const QUOTED = /(?<![\p{L}\p{N}_])'[^']*'|`[^`]*`|"[^"]*"|(?<=: )write .*/gu;
  const VERB = new RegExp(`(?<![\\p{L}\\p{N}_.=/-])(?:${Object.keys(PAST).join("|")})(?![\\p{L}\\p{N}_=/-]|\\.[\\p{L}\\p{N}_])`, "gu");

  // A clause or sentence in its tense. Names of containers stay as they are, and so does what is `quoted`.
  function inTense(said, quoted = "") {
    if (isPresent() || !said) return said;
    const kept = [...said.matchAll(QUOTED)].map((each) => [each.index, each.index + each[0].length]);
    if (quoted && said.includes(quoted)) kept.push([said.indexOf(quoted), said.indexOf(quoted) + quoted.length]);
    return said.replace(VERB, (word, at) => kept.some(([begin, end]) => begin <= at && at < end)
      || [...known.containers.values()].some((each) => each.name === word) ? word : PAST[word]);
  }

  const was = (said) => said && !isPresent() ? inTense(`was ${said}`) : said;
  const orWas = (said, past) => isPresent() ? said : past;
  // The end of a time: the present, or when it was.
  const endOf = (at) => isPresent() && at >= now() - 1 ? "now" : clock(at);
  const LAST_WORD = ", the last that the daemon vouched for";

  async function ask(path) {
    // What a browser says of a connection that fails, or of half an answer, are its own words.
    let answer, told = null;
    try {
      answer = await fetch(path, { headers: { accept: "application/json" } });
      told = parse(await answer.text());
    } catch { /* It is said below. */ }
    if (!answer || !told) throw new Error("The daemon cannot be reached, or does not answer.");
    if (!answer.ok) throw new Error(told.error || `The daemon refuses to answer (${answer.status}).`);
    return told;
  }

  // Colours and letters: one of each for a tenant as long as the page is open, given back when the hour has forgotten it.

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const slots = new Map();

  function slotOf(id) {
    let slot = slots.get(id);
    if (slot === undefined) {
      const taken = new Set(slots.values());
      for (slot = 0; taken.has(slot);) slot++;
      slots.set(id, slot);
    }
    return slot;
  }

  function letterOf(id) {
    const slot = slotOf(id), round = Math.floor(slot / LETTERS.length);
    return LETTERS[slot % LETTERS.length] + (round ? round : "");
  }

  function hex(lightness, chroma, hue) {
    const a = chroma * Math.cos(hue * Math.PI / 180), b = chroma * Math.sin(hue * Math.PI / 180);
    const [l, m, s] = [
      lightness + 0.3963377774 * a + 0.2158037573 * b,
      lightness - 0.1055613458 * a - 0.0638541728 * b,
      lightness - 0.0894841775 * a - 1.2914855480 * b].map((each) => each ** 3);
    return "#" + [
      4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
      -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
      -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s].map((each) => {
        const sound = each <= 0.0031308 ? 12.92 * each : 1.055 * Math.max(each, 0) ** (1 / 2.4) - 0.055;
        return Math.round(255 * Math.min(1, Math.max(0, sound))).toString(16).padStart(2, "0");
      }).join("");
  }

  const colours = new Map();

  function colourOf(id, isDark = dark.matches) {
    const slot = slotOf(id), key = `${slot}${isDark}`;
    if (!colours.has(key)) {
      // The golden angle: neighbours in the order of arrival are far apart, however many they are.
      const hue = (232 + slot * 137.508) % 360, step = Math.floor(slot / 9) % 2;
      colours.set(key, isDark
        ? { fill: hex(0.50 - 0.07 * step, 0.105, hue), ink: hex(0.985, 0.01, hue) }
        : { fill: hex(0.80 + 0.07 * step, 0.095 - 0.02 * step, hue), ink: hex(0.24, 0.05, hue) });
    }
    return colours.get(key);
  }

  function forget() {
    const needed = new Set(holders().map((each) => each.id));
    for (const each of known.history ? [...known.history.began, ...known.history.changes] : []) needed.add(each.container);
    for (const id of slots.keys()) if (!needed.has(id)) slots.delete(id);
  }

  const holders = () => [...known.containers.values()].filter((each) => each.sharing === "exclusive")
    .sort((a, b) => a.since - b.since || (a.id < b.id ? -1 : 1));

  // What is known of each CPU.

  function cellsOf(fields) {
    const cells = new Map();
    for (const cpu of numbers(fields.machine.online)) cells.set(cpu, { kind: fields.policy === "none" ? "unmanaged" : "shared" });
    const shared = new Set(numbers(fields.shared));
    for (const cpu of numbers(fields.machine.isolated)) if (!shared.has(cpu) && cells.has(cpu)) cells.set(cpu, { kind: "isolated" });
    for (const cpu of numbers(fields.reserved)) if (cells.has(cpu)) cells.set(cpu, { kind: "reserved" });
    for (const each of known.containers.values()) {
      for (const cpu of numbers(each.pinned)) if (cells.has(cpu)) cells.set(cpu, { kind: "pinned", by: each.id });
    }
    for (const each of holders()) {
      const there = isLive(each.phase) ? new Set(numbers(each.cpus)) : null;
      for (const cpu of numbers(each.granted)) {
        const cell = cells.get(cpu);
        if (cell) cells.set(cpu, { kind: "owned", owner: each.id, isArriving: there !== null && !there.has(cpu) });
      }
    }
    for (const each of holders()) {
      for (const cpu of each.leaving ? numbers(each.leaving.cpus) : []) {
        const cell = cells.get(cpu);
        if (cell) cells.set(cpu, { ...cell, leaver: each.id });
      }
    }
    for (const cpu of numbers(fields.machine.offline)) cells.set(cpu, { kind: "offline" });
    for (const cpu of known.plan ? known.plan.cpus.keys() : []) {
      if (cells.has(cpu)) cells.set(cpu, { ...cells.get(cpu), isPlanned: true });
    }
    return cells;
  }

  const WORDS = {
    shared: "shared", reserved: "reserved", isolated: "isolated, free", pinned: "pinned by hand", offline: "offline",
    unmanaged: "not managed", owned: "exclusive",
  };

  const nameOf = (id) => (known.containers.get(id) || { name: "" }).name;

  function markOf(cell) {
    if (cell.leaver) return letterOf(cell.leaver);
    if (cell.owner) return letterOf(cell.owner);
    return { reserved: "r", isolated: "-", pinned: "#", offline: "×" }[cell.kind] || "";
  }

  function wordsOf(cell) {
    const parts = [was(cell.owner ? `exclusive, of ${nameOf(cell.owner)}` : WORDS[cell.kind])];
    if (cell.leaver) parts.push(`leaving ${nameOf(cell.leaver)}`);
    if (cell.isArriving) parts.push("not yet on it");
    if (cell.isPlanned) parts.push("in the plan");
    return parts.join(", ");
  }

  const signOf = (cell) => cell.sign || (cell.sign = [cell.kind, cell.owner, cell.leaver, cell.isArriving, cell.isPlanned, cell.by,
    cell.owner && nameOf(cell.owner), dark.matches, isPresent()].join());

  // The machine.

  // Read once, not while drawing: to ask for a width makes the browser lay out the page.
  const narrow = matchMedia("(max-width: 640px)");
  const size = { isNarrow: narrow.matches, width: 0 };

  // Whether another size matters: a page that only becomes longer is drawn as it was.
  function measure() {
    const { isNarrow, width } = size;
    size.isNarrow = narrow.matches;
    size.width = $("time").clientWidth;
    return size.isNarrow !== isNarrow || size.width !== width;
  }

  const map = { machine: null, groups: [], drawn: new Map(), at: null, cells: new Map() };
  const FOLDED = 192; // CPUs of a machine from which on runs of alike cores are one.
  const RUN = 4; // Cores of such a run at least.

  function sizeOf(cpus) {
    const sizes = [[8, 58, 54, 15, 10, 22], [48, 42, 40, 14, 7, 18], [128, 30, 32, 12, 5, 14], [256, 23, 25, 11, 4, 11], [1e9, 15, 17, 10, 3, 8]];
    const place = sizes.findIndex(([most]) => cpus <= most);
    return sizes[Math.min(place + (size.isNarrow && place > 0 ? 1 : 0), sizes.length - 1)];
  }

  function shapeMachine(fields) {
    const machine = fields.machine;
    if (machine === map.machine && size.isNarrow === map.isNarrow) return;
    map.machine = machine;
    map.isNarrow = size.isNarrow;
    map.groups = [];
    map.drawn.clear();
    const box = $("machine");
    box.replaceChildren();
    const all = numbers(machine.online).length + numbers(machine.offline).length;
    const [, wide, high, text, core, cache] = sizeOf(all);
    map.high = high;
    map.hasNumbers = high >= 25;
    for (const [name, value] of [["--wide", wide], ["--high", high], ["--text", text], ["--core", core], ["--cache", cache], ["--row", core + 2]]) {
      box.style.setProperty(name, `${value}px`);
    }
    map.count = all;
    const offline = new Set(numbers(machine.offline));
    for (const socket of machine.packages) {
      const rows = make("div", { class: "socket" });
      if (machine.packages.length > 1) rows.append(make("h3", {}, `socket ${socket.id}`));
      for (const node of socket.nodes) {
        const caches = make("div", { class: "caches" });
        const isDivided = node.caches.length > 1 && node.caches.some((each) => each.cores.length > 1);
        const groups = isDivided ? node.caches.map((each) => [each.cores, `cache ${each.id}`]) : [[node.caches.flatMap((each) => each.cores), ""]];
        for (const [cores, title] of groups) {
          const element = make("div", { class: "cache", title: title || null });
          caches.append(element);
          map.groups.push({ element, cores: cores.map((each) => numbers(each.cpus)).filter((each) => each.length), sign: "" });
        }
        const row = make("div", { class: "node" }, caches);
        if (machine.packages.some((each) => each.nodes.length > 1)) row.prepend(make("h4", {}, `node ${node.id}`));
        rows.append(row);
      }
      box.append(rows);
    }
    if (offline.size) {
      const element = make("div", { class: "cache" });
      const title = machine.packages.length > 1 ? make("h3", {}, "offline") : null;
      box.append(make("div", { class: "socket" }, title, make("div", { class: "node" }, make("div", { class: "caches" }, element))));
      map.groups.push({ element, cores: [...offline].map((cpu) => [cpu]), sign: "" });
    }
  }

  // Cores beside each other that are alike, as one: [[core, ...], ...].
  function runsOf(cores, cells, isFolding) {
    const runs = [];
    for (const core of cores) {
      const cell = cells.get(core[0]) || {}, sign = signOf(cell);
      const isPlain = !cell.leaver && !cell.isArriving && !cell.isPlanned && core.every((cpu) => signOf(cells.get(cpu) || {}) === sign);
      const last = runs[runs.length - 1];
      if (isFolding && isPlain && last && last.sign === sign) last.cores.push(core);
      else runs.push({ sign: isPlain ? sign : null, cores: [core] });
    }
    return runs.flatMap((run) => run.sign !== null && run.cores.length >= RUN ? [run.cores] : run.cores.map((core) => [core]));
  }

  // Whether a core is one cell: where cells are too small for two marks, and its threads are alike.
  const isWhole = (core, cells, isFolding) => isFolding && map.high < 22 && core.length > 1
    && core.every((cpu) => signOf(cells.get(cpu) || {}) === signOf(cells.get(core[0]) || {}));

  function drawMachine() {
    const fields = known.fields;
    shapeMachine(fields);
    const cells = cellsOf(fields);
    map.cells = cells;
    const canFold = map.count > (size.isNarrow ? 64 : FOLDED), isFolding = canFold && !known.isUnfolded;
    for (const group of map.groups) {
      const runs = runsOf(group.cores, cells, isFolding);
      for (const run of runs) run.isWhole = run.length === 1 && isWhole(run[0], cells, isFolding);
      const sign = runs.map((run) => run.isWhole ? "w" : run.length).join();
      if (sign !== group.sign) rebuild(group, runs, sign);
      for (const run of runs) {
        if (run.length > 1) paintRun(map.drawn.get(`run ${run[0][0]}`), run, cells);
        else if (run.isWhole) paint(map.drawn.get(run[0][0]), run[0], cells.get(run[0][0]) || {});
        else for (const cpu of run[0]) paint(map.drawn.get(cpu), [cpu], cells.get(cpu) || {});
      }
    }
    const fold = $("fold");
    fold.hidden = !canFold;
    write(fold, isFolding ? "Show every CPU" : "Fold");
    keepOneStop();
    drawLegend(cells);
  }

  function rebuild(group, runs, sign) {
    group.sign = sign;
    for (const key of group.keys || []) map.drawn.delete(key);
    group.keys = [];
    group.element.replaceChildren(...runs.map((run) => {
      if (run.length > 1) {
        const key = `run ${run[0][0]}`, made = make("button", { type: "button", class: "run", tabindex: -1, "data-cpu": run[0][0] });
        group.keys.push(key);
        map.drawn.set(key, made);
        return made;
      }
      return make("div", { class: "core" }, ...(run.isWhole ? [run[0][0]] : run[0]).map((cpu) => {
        const made = make("button", { type: "button", class: "cpu", tabindex: -1, "data-cpu": cpu }, make("b", { "aria-hidden": "true" }));
        if (run.isWhole) made.style.setProperty("--many", run[0].length);
        if (map.hasNumbers) made.append(make("i", { "aria-hidden": "true" }, `${cpu}`));
        group.keys.push(cpu);
        map.drawn.set(cpu, made);
        return made;
      }));
    }));
  }

  function paint(element, cpus, cell) {
    const sign = signOf(cell);
    if (element.sign === sign) return;
    element.sign = sign;
    const classes = ["cpu", cell.kind];
    if (cpus.length > 1) classes.push("whole");
    if (cell.leaver) classes.push("leaving");
    if (cell.isArriving) classes.push("arriving");
    if (cell.isPlanned) classes.push("planned");
    element.className = classes.join(" ");
    if (cell.owner) {
      element.style.setProperty("--c", colourOf(cell.owner).fill);
      element.style.setProperty("--on", colourOf(cell.owner).ink);
    }
    if (cell.leaver) element.style.setProperty("--e", colourOf(cell.leaver).fill);
    write(element.firstChild, markOf(cell));
    element.setAttribute("aria-label", `CPU${cpus.length > 1 ? "s" : ""} ${list(cpus)}: ${wordsOf(cell)}${seen(element)}`);
  }

  // What is seen of a cell is part of its name, for people who say what they see.
  const seen = (element) => element.querySelector("b") && element.querySelector("b").textContent ? `; ${element.textContent}` : "";

  function paintRun(element, run, cells) {
    const cpus = run.flat(), cell = cells.get(cpus[0]), text = `${markOf(cell) || WORDS[cell.kind]} ×${cpus.length}`;
    const sign = `${signOf(cell)} ${text}`;
    if (element.sign === sign) return;
    element.sign = sign;
    element.className = `run ${cell.kind}`;
    if (cell.owner) {
      element.style.setProperty("--c", colourOf(cell.owner).fill);
      element.style.setProperty("--on", colourOf(cell.owner).ink);
    }
    const name = markOf(cell) || (map.high < 25 && size.isNarrow ? "" : WORDS[cell.kind]);
    element.replaceChildren(...(name ? [make("b", { "aria-hidden": "true" }, name)] : []), make("span", { "aria-hidden": "true" }, `×${cpus.length}`));
    element.setAttribute("aria-label", `CPUs ${list(cpus)}: ${wordsOf(cell)}${seen(element)}`);
  }

  function drawLegend(cells) {
    const there = new Set([...cells.values()].map((cell) => cell.kind)), states = [...cells.values()];
    const words = [];
    if (there.has("reserved")) words.push(["r", known.fields.shared && numbers(known.fields.shared).some((cpu) => numbers(known.fields.reserved).includes(cpu)) ? "reserved, shared" : "reserved"]);
    if (there.has("isolated")) words.push(["-", "isolated, free"]);
    if (there.has("pinned")) words.push(["#", "pinned by hand"]);
    if (there.has("offline")) words.push(["×", "offline"]);
    if (states.some((cell) => cell.leaver)) words.push(["▨", "leaving"]);
    if (states.some((cell) => cell.isArriving)) words.push(["▢", "arriving"]);
    words.push(there.has("unmanaged") ? ["", "no letter: not managed"] : there.has("shared") ? ["", "no letter: shared"] : null);
    const sign = JSON.stringify(words);
    if ($("legend").sign === sign) return;
    $("legend").sign = sign;
    $("legend").replaceChildren(...words.filter(Boolean).map(([mark, text]) => make("span", {}, mark && make("b", {}, mark), text)));
  }

  // One stop for Tab in the machine; arrows go on from there.

  function keepOneStop() {
    if (map.at && map.at.isConnected) return;
    map.at = $("machine").querySelector("button");
    if (map.at) map.at.tabIndex = 0;
  }

  function goTo(element) {
    if (map.at) map.at.tabIndex = -1;
    map.at = element;
    element.tabIndex = 0;
    element.focus();
  }

  $("machine").addEventListener("keydown", (event) => {
    const all = [...$("machine").querySelectorAll("button")], at = all.indexOf(document.activeElement);
    if (at < 0) return;
    let next = null;
    if (event.key === "ArrowRight") next = all[at + 1];
    else if (event.key === "ArrowLeft") next = all[at - 1];
    else if (event.key === "Home") next = all[0];
    else if (event.key === "End") next = all[all.length - 1];
    else if (event.key === "Escape") hideTip();
    else if (event.key === "Enter" || event.key === " ") openOwner(document.activeElement);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const here = all[at].getBoundingClientRect(), sign = event.key === "ArrowDown" ? 1 : -1;
      const far = (box) => Math.abs(box.left - here.left) + 8 * sign * (box.top - here.top);
      next = all.map((each) => [each, each.getBoundingClientRect()]).filter(([, box]) => sign * (box.top - here.top) > 3)
        .sort((a, b) => far(a[1]) - far(b[1])).map(([each]) => each)[0];
    } else return;
    event.preventDefault();
    if (next) goTo(next);
  });
  $("machine").addEventListener("focusin", (event) => showTip(event.target.closest("button")));
  $("machine").addEventListener("focusout", hideTip);
  $("machine").addEventListener("pointerover", (event) => showTip(event.target.closest("button")));
  $("machine").addEventListener("pointerleave", hideTip);
  $("machine").addEventListener("click", (event) => openOwner(event.target.closest("button")));

  function openOwner(element) {
    const cell = element && map.cells.get(Number(element.dataset.cpu));
    const id = cell && (cell.leaver || cell.owner || cell.by);
    if (!id) return;
    if (!known.open.has(id)) toggle(id);
    for (const name of ["filter-text", "filter-kind", "filter-project", "filter-engine"]) $(name).value = "";
    drawTenants();
    const row = rows.get(id);
    if (row) row.element.scrollIntoView({ block: "center", behavior: "auto" });
  }

  // What is said of a CPU that is pointed at.

  let tipFor = null, tipTimer = 0;

  function hideTip() {
    clearTimeout(tipTimer);
    if (tipFor) tipFor.removeAttribute("aria-describedby");
    tipFor = null;
    $("tip").hidden = true;
  }

  function showTip(element) {
    if (!element) return hideTip();
    if (element === tipFor) return;
    hideTip();
    tipFor = element;
    const cpu = Number(element.dataset.cpu);
    element.setAttribute("aria-describedby", "tip");
    fillTip(element, cpu, null);
    tipTimer = setTimeout(async () => {
      try {
        const view = await ask(`v1/cpus/${cpu}`);
        if (tipFor === element) fillTip(element, cpu, view);
      } catch (error) {
        if (tipFor === element) fillTip(element, cpu, { explanation: [String(error.message)] });
      }
    }, 120);
  }

  function sinceOf(id, cpu) {
    let since = null;
    for (const each of known.history ? [...known.history.began, ...known.history.changes] : []) {
      if (each.container !== id) continue;
      const has = numbers(each.cpus).includes(cpu);
      if (!has) since = null;
      else if (since === null) since = each.at;
    }
    if (since === null) return "";
    const isOlder = known.history.began.some((each) => each.container === id && numbers(each.cpus).includes(cpu) && each.at === since);
    const told = isOlder ? `since ${clock(since)} or before` : `since ${clock(since)}, for ${ago(now() - since)}`;
    return orWas(told, `${told}, until ${clock(now())} at least`);
  }

  function fillTip(element, cpu, view) {
    const cell = map.cells.get(cpu) || {}, owner = known.containers.get(cell.owner), tip = $("tip");
    const title = element.matches(".run, .whole") ? element.getAttribute("aria-label").split(":")[0] : `CPU ${cpu}`;
    const parts = [make("h3", {}, title, owner ? " · " : "", owner ? foreign(cut(owner.name, 80)) : ` · ${WORDS[cell.kind] || ""}`)];
    const soft = [];
    if (owner) soft.push(sinceOf(owner.id, cpu));
    if (owner && owner.load) soft.push(`${orWas("uses", "used")} ${owner.load.use.toFixed(1)} of ${count(numbers(owner.granted).length, "CPU")}`);
    const leaver = known.containers.get(cell.leaver);
    if (leaver && leaver.leaving) soft.push(leftOf(leaver.leaving));
    if (soft.filter(Boolean).length) parts.push(make("p", { class: "soft" }, soft.filter(Boolean).join(" · ")));
    const reason = owner && owner.moves.length ? owner.moves[owner.moves.length - 1].reason : "";
    if (reason) parts.push(make("p", {}, foreign(inTense(reason))));
    for (const sentence of view ? view.explanation : []) parts.push(make("p", {}, foreign(inTense(sentence))));
    tip.replaceChildren(...parts);
    tip.hidden = false;
    const box = element.getBoundingClientRect(), own = tip.getBoundingClientRect();
    const left = Math.min(Math.max(12, box.left), innerWidth - own.width - 12);
    const below = box.bottom + 8 + own.height <= innerHeight || box.top < own.height + 16;
    tip.style.setProperty("left", `${left}px`);
    tip.style.setProperty("top", `${below ? box.bottom + 8 : box.top - own.height - 8}px`);
  }

  // The containers.

  const COLUMNS = [
    { name: "", key: "mark", of: (c) => c.sharing === "exclusive" ? c.since : 1e9 },
    { name: "Name", key: "name", of: (c) => c.name },
    { name: "Kind", key: "sharing", class: "roomy", of: (c) => c.sharing, text: (c) => c.sharing === "stranger" ? "pinned by hand" : c.sharing },
    { name: "CPUs", key: "size", number: true, of: (c) => c.granted ? numbers(c.granted).length : numbers(c.cpus).length / 1e5,
      text: (c) => c.granted ? `${numbers(c.granted).length}` : "" },
    { name: "Where", key: "cpus", of: (c) => c.cpus, text: (c) => isLive(c.phase) ? c.cpus : "", class: "list roomy" },
    { name: "Asked", key: "asked", number: true, optional: true, of: (c) => c.asked, text: (c) => c.asked && `${c.asked}` !== `${numbers(c.granted).length}` ? `${c.asked}` : "" },
    { name: "Range", key: "range", number: true, optional: true, of: (c) => c.floor, text: (c) => c.ceiling > c.floor ? `${c.floor}–${c.ceiling}` : "" },
    { name: "Scale", key: "scale", optional: true, of: (c) => c.scale, text: (c) => c.ceiling > c.floor ? c.scale : "" },
    { name: "Weight", key: "weight", number: true, optional: true, of: (c) => c.weight, text: (c) => c.ceiling > c.floor ? `${c.weight}` : "" },
    { name: "Use", key: "use", optional: true, of: (c) => c.load ? c.load.use : -1, text: (c) => c.load ? c.load.use.toFixed(1) : "" },
    { name: "Project", key: "project", optional: true, of: (c) => c.project, text: (c) => c.project, class: "list" },
    { name: "State", key: "state", of: (c) => stateOf(c), text: (c) => stateOf(c) },
  ];

  function leftOf(leaving) {
    if (leaving.is_due) return "notice over";
    const until = Date.parse(leaving.until) / 1000;
    return until ? `${Math.max(0, until - now()).toFixed(1)} s left` : `${leaving.notice_seconds} s of notice`;
  }

  function stateOf(c) {
    const words = c.phase === "running" ? [] : [c.phase];
    const isExclusive = c.sharing === "exclusive";
    if (c.leaving) words.push(`leaving ${c.leaving.cpus}: ${leftOf(c.leaving)}`);
    else if (c.pending) words.push(`on its way to ${c.pending}`);
    else if (c.trouble) words.push("failed");
    else if (c.waits_for) words.push("waiting");
    else if (c.is_settled && isExclusive) {
      words.push(!isLive(c.phase) ? "keeps its CPUs" : c.is_alone ? "settled, alone"
        : c.neighbours.length ? `settled; ${c.neighbours.slice(0, 2).map((each) => cut(each.name, 30)).join(", ")}${c.neighbour_count > 2 ? ` and ${c.neighbour_count - 2} more` : ""} may run there` : "settled");
    } else if (c.is_settled && c.sharing === "shared") words.push("settled");
    if (c.refusal) words.push(c.turn ? `refused, number ${c.turn} of ${known.fields.waiting} waiting` : "refused");
    if (c.is_quota_lifted) words.push("quota lifted");
    const warnings = c.warnings.filter((each) => each !== c.refusal).length;
    if (warnings) words.push(count(warnings, "warning"));
    return was(words.join("; "));
  }

  const rows = new Map();
  const natural = new Intl.Collator(undefined, { numeric: true }).compare;

  function shown() {
    const text = $("filter-text").value.trim().toLowerCase();
    const [kind, project, engine] = ["kind", "project", "engine"].map((each) => $(`filter-${each}`).value);
    const cpu = /^\d+$/.test(text) ? Number(text) : null;
    const found = [...known.containers.values()].filter((c) => (!kind || c.sharing === kind) && (!project || c.project === project)
      && (!engine || c.engine === engine) && (!text || c.name.toLowerCase().includes(text) || c.id.startsWith(text)
        || stateOf(c).toLowerCase().includes(text) || (cpu !== null && isLive(c.phase) && numbers(c.cpus).includes(cpu))));
    const [key, way] = known.sort, column = COLUMNS.find((each) => each.key === key);
    const usual = (a, b) => (a.sharing !== "exclusive") - (b.sharing !== "exclusive") || !isLive(a.phase) - !isLive(b.phase)
      || natural(a.name, b.name) || (a.id < b.id ? -1 : 1);
    if (!column) return found.sort(usual);
    const values = new Map(found.map((c) => [c, column.of(c)]));
    return found.sort((a, b) => {
      const one = values.get(a), two = values.get(b);
      return way * (typeof one === "number" ? one - two : natural(one, two)) || usual(a, b);
    });
  }

  let columns = "";

  function drawTenants() {
    const all = [...known.containers.values()];
    const used = COLUMNS.filter((column) => !column.optional || all.some((c) => column.text(c)));
    const sign = used.map((column) => column.key).join();
    if (sign !== columns) {
      columns = sign;
      for (const row of rows.values()) row.signs = [];
      $("tenants-head").replaceChildren(...used.map((column) => make("th", { scope: "col", "data-key": column.key,
        class: [column.key === "mark" ? "mark" : "", column.number ? "number" : "", column.optional ? "optional" : "", (column.class || "").includes("roomy") ? "roomy" : ""].join(" ").trim() || null },
        column.name ? make("button", { type: "button", on: { click: () => sortBy(column.key) } }, column.name) : make("span", { class: "unseen" }, "Letter"))));
      markSort();
    }
    fillFilter("kind", "every kind", [...new Set(all.map((c) => c.sharing))].sort());
    fillFilter("project", "every project", [...new Set(all.map((c) => c.project).filter(Boolean))].sort(natural));
    fillFilter("engine", "every engine", [...new Set(all.map((c) => c.engine).filter(Boolean))].sort());
    const found = shown(), body = $("tenants-body");
    let before = null;
    const there = new Set();
    for (const c of found) {
      const row = rowOf(c, used);
      there.add(c.id);
      const place = before ? before.nextSibling : body.firstChild;
      if (place !== row.element) body.insertBefore(row.element, place);
      before = row.element;
      if (known.open.has(c.id)) {
        if (row.element.nextSibling !== row.detail) body.insertBefore(row.detail, row.element.nextSibling);
        before = row.detail;
      } else if (row.detail.isConnected) row.detail.remove();
    }
    for (const [id, row] of rows) {
      if (there.has(id)) continue;
      row.element.remove();
      row.detail.remove();
      if (!known.containers.has(id)) { rows.delete(id); known.open.delete(id); }
    }
    const exclusive = all.filter((c) => c.sharing === "exclusive").length;
    write($("count"), `${all.length}${all.length ? `, ${exclusive} exclusive` : ""}${found.length < all.length ? `; ${found.length} shown` : ""}`);
    $("empty").hidden = found.length > 0;
    write($("empty"), all.length ? "None is like that." : orWas("No container is there.", "No container was there."));
  }

  function fillFilter(name, every, values) {
    const select = $(`filter-${name}`), sign = values.join("\n");
    if (select.sign === sign) return;
    const chosen = select.value;
    select.sign = sign;
    select.replaceChildren(make("option", { value: "" }, every), ...values.map((each) => make("option", { value: each }, cut(each, 40))));
    select.value = values.includes(chosen) ? chosen : "";
    select.closest("label").hidden = values.length < 2;
  }

  function rowOf(c, used) {
    let row = rows.get(c.id);
    if (!row) {
      row = { element: make("tr", {}), detail: make("tr", { class: "detail", id: `detail-${c.id}` }), signs: [] };
      rows.set(c.id, row);
    }
    const isOpen = known.open.has(c.id), around = `${isOpen} ${dark.matches} ${known.fields.waiting} ${isPresent()}`;
    // What is said of a container is another object with each change of it; a notice goes on without one.
    if (row.of === c && row.around === around && row.signs.length && !c.leaving) return row;
    row.of = c;
    row.around = around;
    const look = `row${isLive(c.phase) ? "" : " idle"}`;
    if (row.element.className !== look) row.element.className = look;
    const hadFocus = row.element.contains(document.activeElement), isNew = row.signs.length === 0;
    const cells = used.map((column, place) => {
      const text = column.key === "mark" || column.key === "name" ? c.name : column.text(c);
      const sign = signOfCell(c, column, text, isOpen);
      if (!isNew && row.signs[place] === sign) return null;
      row.signs[place] = sign;
      return cellOf(c, column, text, isOpen);
    });
    if (isNew) row.element.replaceChildren(...cells);
    else cells.forEach((cell, place) => { if (cell) row.element.children[place].replaceWith(cell); });
    if (hadFocus && !row.element.contains(document.activeElement)) row.element.querySelector("button").focus();
    return row;
  }

  // All that a cell shows.
  function signOfCell(c, column, text, isOpen) {
    if (column.key === "mark") return c.sharing === "exclusive" ? `${letterOf(c.id)} ${dark.matches}` : "";
    if (column.key === "name") return `${isOpen} ${text}`;
    if (column.key === "use") return c.load ? `${text} of ${c.granted || c.cpus}` : "";
    return column.key === "state" ? `${Boolean(c.refusal || c.trouble)} ${text}` : text;
  }

  function cellOf(c, column, text, isOpen) {
    const names = [column.class || "", column.number ? "number" : "", column.optional ? "optional" : ""].filter(Boolean);
    if (column.key === "mark") {
      const mark = c.sharing === "exclusive" ? make("span", { class: "letter", css: { "--c": colourOf(c.id).fill, "--on": colourOf(c.id).ink } }, letterOf(c.id)) : "";
      return make("td", { class: "mark" }, mark);
    }
    if (column.key === "name") {
      return make("td", { class: "name" }, make("button", { type: "button", dir: "auto", title: [...c.name].length > 40 ? c.name : null,
        "aria-expanded": `${isOpen}`, "aria-controls": isOpen ? `detail-${c.id}` : null, on: { click: () => { toggle(c.id); schedule(); } } }, c.name || c.id.slice(0, 12)));
    }
    if (column.key === "use" && c.load) {
      const of = numbers(c.granted).length || numbers(c.cpus).length || 1;
      return make("td", { class: names.join(" ") }, make("span", { class: "use" }, make("span", { "aria-hidden": "true" },
        make("span", { css: { "--part": `${Math.min(1, c.load.use / of)}` } })), text));
    }
    if (column.key === "state" && (c.refusal || c.trouble)) names.push("bad");
    const isForeign = column.key === "project" || column.key === "state";
    return make("td", { class: names.join(" ") || null, dir: column.key === "project" ? "auto" : null, title: (column.class || "").startsWith("list") && text.length > 24 ? text : null },
      isForeign ? foreign(text) : text);
  }

  function sortBy(key) {
    const [was, way] = known.sort;
    known.sort = was !== key ? [key, 1] : way > 0 ? [key, -1] : ["", 1];
    markSort();
    schedule();
  }

  function markSort() {
    for (const head of $("tenants-head").children) {
      head.removeAttribute("aria-sort");
      if (head.dataset.key === known.sort[0]) head.setAttribute("aria-sort", known.sort[1] > 0 ? "ascending" : "descending");
    }
  }

  // One container, opened.

  function toggle(id) {
    if (known.open.has(id)) return known.open.delete(id);
    known.open.set(id, { told: null, error: "", sign: "" });
    return tell(id);
  }

  async function tell(id) {
    const open = known.open.get(id);
    try {
      open.told = await ask(`v1/containers/${encodeURIComponent(id)}/explanation`);
      open.error = "";
    } catch (error) {
      open.error = String(error.message);
    }
    schedule();
  }

  function drawDetails() {
    for (const [id, open] of known.open) {
      const c = known.containers.get(id), row = rows.get(id);
      if (!c || !row) continue;
      const changes = changesOf(id);
      const { load, ...rest } = c; // A load alone is drawn with the quarter of a minute.
      const sign = JSON.stringify([rest, open.told, open.error, changes.length, Math.floor(now() / 15), dark.matches, size.width, known.state]);
      const stated = JSON.stringify(rest);
      if (open.stated && open.stated !== stated) tell(id);
      open.stated = stated;
      if (sign === open.sign) continue;
      open.sign = sign;
      const hadFocus = row.detail.contains(document.activeElement);
      row.detail.replaceChildren(make("td", { colspan: COLUMNS.length }, sheetOf(c, open, changes)));
      if (hadFocus) row.element.querySelector("button").focus();
    }
  }

  function sheetOf(c, open, changes) {
    const told = open.told, sheet = make("div", { class: "sheet" });
    const said = (told ? told.explanation : c.explanation).map((each) => inTense(each, c.trouble));
    if (!isPresent() && said.length && !said[0].includes("This is what")) said.unshift(`This is what the daemon last said, at ${clock(now())}:`);
    const add = (title, ...content) => sheet.append(make("div", {}, make("h3", {}, title), ...content));
    add("Why", make("ul", {}, ...said.map((each) => make("li", {}, foreign(each))), open.error && make("li", { class: "bad" }, open.error)));
    const facts = [["id", make("code", {}, c.id.slice(0, 12))], ["kind", c.sharing], ["phase", c.phase], [orWas("runs on", "ran on"), isLive(c.phase) ? c.cpus || "no CPUs" : ""], [inTense("should be on"), c.desired !== c.cpus && c.desired],
      ["granted", c.granted !== c.cpus && c.granted], ["at first", c.original !== c.granted ? c.original : ""], ["asked for", c.asked ? `${c.asked}` : ""], ["pinned to", c.pinned],
      ["range", c.ceiling > c.floor ? `${c.floor}–${c.ceiling}, ${c.scale}, weight ${c.weight}` : ""], ["ordered", c.ordered === null ? "" : `${c.ordered}`],
      ["load", c.load ? `${orWas("uses", "used")} ${c.load.use.toFixed(2)}, peak ${c.load.peak.toFixed(2)}, pressure ${c.load.pressure.toFixed(0)} %${c.load.is_throttled ? ", throttled" : ""}` : ""],
      [inTense("waits for"), c.waits_for && foreign(inTense(c.waits_for))], ["clash", c.clash && foreign(inTense(c.clash))], ["trouble", c.trouble && foreign(c.trouble)], ["refused", c.refusal && foreign(inTense(c.refusal))],
      ["forced", c.forced ? count(c.forced, "take") : ""], ["project", c.project && foreign(c.project)], ["engine", c.engine],
      ["disturbed", told && told.disturbed ? disturbedText(told.disturbed) : ""],
      ...c.warnings.map((each) => ["warning", foreign(inTense(each))])];
    add("Facts", make("dl", {}, ...facts.filter(([, value]) => value).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])));
    if (told && told.projection) {
      const p = told.projection;
      const parts = [["cpus", p.cpus || "none"], ["alone", `${p.alone}`], ["settled", `${p.settled}`], ["leaving", p.leaving], ["arriving", p.arriving], ["reason", p.reason && foreign(inTense(p.reason))]];
      add(orWas("It reads, in its status.json", "It read, in its status.json"), make("dl", {}, ...parts.filter(([, value]) => value).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])));
    }
    if (changes.length) {
      const strip = make("div", { class: "strip wide" }, make("h3", {}, "CPUs it held"));
      strip.append(stripOf(c.id, changes));
      sheet.append(strip);
      add("What changed", make("ol", {}, ...changes.slice(-6).reverse().map((each) => make("li", {}, make("time", {}, clock(each.at)), `${inTense("holds")} ${each.cpus || "none"}`, each.reason ? ": " : "", foreign(each.reason)))));
    }
    const commands = [`cpuset-sidecar explain ${quoted(c.id)}`, c.granted && `cpuset-sidecar disturbed ${quoted(c.id)}`,
      (c.engine === "docker" || c.engine === "podman") && `${c.engine} inspect ${quoted(c.id)}`].filter(Boolean);
    add("Commands", ...commands.map((each) => make("p", { class: "command" }, make("code", {}, each), make("button", { type: "button", class: "quiet",
      "aria-label": `Copy ${each}`, on: { click: (event) => copy(event.currentTarget, each) } }, "Copy"))));
    return sheet;
  }

  // An id, not a name: a name is somebody's text, and this is for a shell.
  const quoted = (id) => /^[0-9a-f]+$/.test(id) ? id.slice(0, 12) : `'${id.replaceAll("'", "'\\''")}'`;

  function disturbedText(d) {
    const seconds = Object.entries(d.foreign).filter(([, value]) => value > 0).map(([kind, value]) => `${kind.replace("_", " ")} ${(1000 * value).toFixed(0)} ms`);
    return `${seconds.join(", ") || "by nothing"}, of ${d.of_seconds.toFixed(0)} s of its CPUs`;
  }

  async function copy(button, text) {
    try { await navigator.clipboard.writeText(text); write(button, "Copied"); } catch { write(button, "Not allowed"); }
    setTimeout(() => write(button, "Copy"), 1500);
  }

  const changesOf = (id) => known.history ? [...known.history.began, ...known.history.changes].filter((each) => each.container === id) : [];

  function stripOf(id, changes) {
    const width = Math.max(200, Math.min(900, size.width - 60)), high = 34, until = now(), since = Math.max(until - HOUR, Math.min(known.history.since, until - 30)), span = until - since;
    const most = Math.max(1, ...changes.map((each) => numbers(each.cpus).length));
    const x = (at) => Math.max(0, (at - since) / span * width), y = (many) => high - many / most * (high - 4);
    const svg = draw("svg", { width, height: high + 16, viewBox: `0 0 ${width} ${high + 16}`, role: "img", "aria-label": `${count(most, "CPU")} at most, in the last hour` });
    changes.forEach((each, place) => {
      const many = numbers(each.cpus).length, end = place + 1 < changes.length ? changes[place + 1].at : until;
      if (many && end > since) svg.append(draw("rect", { x: x(each.at), y: y(many), width: Math.max(1, x(end) - x(each.at)), height: high - y(many), fill: colourOf(id).fill }));
    });
    const soft = getComputedStyle(document.body).getPropertyValue("--soft");
    svg.append(draw("text", { x: 0, y: high + 12, "font-size": 11, fill: soft }, clock(since, span < 900)),
      draw("text", { x: width, y: high + 12, "font-size": 11, "text-anchor": "end", fill: soft }, `${endOf(until)}: ${count(numbers(changes[changes.length - 1].cpus).length, "CPU")}`));
    return svg;
  }

  // The last hour.

  // Who had each CPU, as [{id, from, to}, ...]; CPUs with the same past are one row.
  function pastOf(history, until) {
    const cpus = new Map(), held = new Map();
    const end = (id, cpu, at) => {
      const spans = cpus.get(cpu), last = spans[spans.length - 1];
      if (last && last.id === id && last.to === null) last.to = at;
    };
    for (const each of [...history.began.map((one) => ({ ...one, at: history.since })), ...history.changes]) {
      if (!each.container) continue;
      const before = held.get(each.container) || [], after = numbers(each.cpus), kept = new Set(after), had = new Set(before);
      for (const cpu of before) if (!kept.has(cpu)) end(each.container, cpu, each.at);
      for (const cpu of after) {
        if (had.has(cpu)) continue;
        if (!cpus.has(cpu)) cpus.set(cpu, []);
        const spans = cpus.get(cpu), last = spans[spans.length - 1];
        if (last && last.to === null) last.to = each.at;
        spans.push({ id: each.container, name: each.name, from: each.at, to: null });
      }
      held.set(each.container, after);
    }
    const alike = new Map();
    for (const [cpu, spans] of [...cpus].sort((a, b) => a[0] - b[0])) {
      const key = JSON.stringify(spans);
      if (!alike.has(key)) alike.set(key, { cpus: [], spans: spans.map((each) => ({ ...each, to: each.to === null ? until : each.to })) });
      alike.get(key).cpus.push(cpu);
    }
    return [...alike.values()];
  }

  // Without a wish the whole record: an hour, or less while there is less.
  const spanOf = () => known.zoom.span || Math.min(HOUR, Math.max(20, (now() - known.history.since) * 1.02));

  const STEPS = [5, 10, 30, 60, 120, 300, 600, 900];

  function timeLine(width, look) {
    const { end } = known.zoom, span = spanOf(), history = known.history, to = end === null ? now() : end, from = to - span;
    const past = pastOf(history, now()).filter((row) => row.spans.some((each) => each.to > from && each.from < to));
    const names = new Map([...history.began, ...history.changes].map((each) => [each.container, each.name]));
    const high = past.length > 80 ? 10 : past.length > 28 ? 14 : 20, gap = high > 10 ? 3 : 1, font = Math.min(12, high - 1);
    const labels = Math.min(150, 14 + 6.6 * Math.max(3, ...past.map((row) => Math.min(20, list(row.cpus).length))));
    // Of many rows the end is not in sight: their axis is above them.
    const isAbove = past.length * (high + gap) > 420, top = isAbove ? 30 : 4, foot = top + Math.max(1, past.length) * (high + gap), bottom = isAbove ? 0 : foot, right = 10, inner = Math.max(40, width - labels - right);
    const x = (at) => labels + (at - from) / span * inner;
    const height = foot + (isAbove ? 4 : 26);
    const svg = draw("svg", { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
      "font-family": "system-ui, sans-serif", "aria-label": `${count(past.length, "row")} of CPUs from ${clock(from)} to ${clock(to)}` });
    const step = STEPS.find((each) => span / each * 70 <= inner) || 900;
    past.forEach((row, place) => {
      const y = top + place * (high + gap);
      svg.append(draw("text", { x: labels - 10, y: y + high / 2 + font / 3, "text-anchor": "end", "font-size": font, fill: look.soft }, cut(list(row.cpus), 20)));
      for (const each of row.spans) {
        // What one had at the same time on the rows below is one block, with one name.
        const isSame = (other) => other.id === each.id && other.from === each.from && other.to === each.to;
        if (place && past[place - 1].spans.some(isSame)) continue;
        let rows = 1;
        while (past[place + rows] && past[place + rows].spans.some(isSame)) rows++;
        const cpus = list(past.slice(place, place + rows).flatMap((one) => one.cpus));
        const begin = Math.max(from, each.from), stop = Math.min(to, each.to);
        if (stop <= begin) continue;
        const { fill, ink } = colourOf(each.id, look.isDark), wide = Math.max(1, x(stop) - x(begin) - (each.to < to ? 1 : 0));
        const bar = draw("rect", { x: x(begin).toFixed(1), y, width: wide.toFixed(1), height: rows * (high + gap) - gap, rx: Math.min(2, wide / 2), fill, "data-id": each.id });
        bar.append(draw("title", {}, `${each.name}: CPUs ${cpus}, ${clock(each.from)} to ${endOf(each.to)}`));
        svg.append(bar);
        const letter = letterOf(each.id), fits = Math.floor((wide - 24) / 7);
        if (wide > 12) {
          const text = draw("text", { x: (x(begin) + 5).toFixed(1), y: y + high / 2 + font / 3, "font-size": font, fill: ink, "pointer-events": "none" });
          text.append(draw("tspan", { "font-weight": 700 }, letter));
          if (fits > 3) text.append(draw("tspan", { dx: 6 }, cut(names.get(each.id) || "", fits)));
          svg.append(text);
        }
      }
    });
    svg.append(draw("line", { x1: labels, x2: width - right, y1: bottom + 3.5, y2: bottom + 3.5, stroke: look.line }));
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
      svg.append(draw("line", { x1: x(at), x2: x(at), y1: bottom + 3, y2: bottom + 8, stroke: look.soft }));
      if (x(at) < width - right - 20 && x(at) > labels + 14) svg.append(draw("text", { x: x(at), y: bottom + 20, "text-anchor": "middle", "font-size": 11, fill: look.soft }, clock(at, step < 60)));
    }
    for (const each of history.changes) {
      if (each.at < from || each.at > to) continue;
      if (!each.container) {
        svg.append(draw("line", { x1: x(each.at), x2: x(each.at), y1: isAbove ? bottom + 10 : top, y2: isAbove ? foot : bottom + 3, stroke: look.soft, "stroke-dasharray": "2 3" }));
        const flag = draw("path", { d: `M${x(each.at) - 4} ${bottom + 8}h8l-4 -5z`, fill: look.soft });
        flag.append(draw("title", {}, `the daemon started at ${clock(each.at)}`));
        svg.append(flag);
        continue;
      }
      const tick = draw("rect", { x: x(each.at) - 1, y: bottom, width: 2, height: 7, fill: colourOf(each.container, look.isDark).ink });
      tick.append(draw("title", {}, `${clock(each.at)} ${each.name}: ${each.cpus || "none"}. ${each.reason}`));
      svg.append(tick);
    }
    if (!past.length) svg.append(draw("text", { x: labels, y: top + 14, "font-size": 13, fill: look.soft }, "No container had CPUs of its own in this time."));
    return { svg, past, from, to };
  }

  function lookOf() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    return { isDark: dark.matches, soft: of("--soft"), line: of("--line"), ink: of("--ink"), paper: of("--paper") };
  }

  const time = { sign: "", isSeen: false, at: -Infinity, took: 0 };

  function drawTime() {
    const history = known.history;
    if (!history) return;
    const width = size.width;
    const sign = JSON.stringify([history.changes.length, history.changes.length && history.changes[history.changes.length - 1].at, known.zoom, width, dark.matches, known.state,
      known.zoom.end === null && Math.floor(now() / Math.max(2, spanOf() / 600))]);
    if (sign === time.sign || !width) return;
    // Of many rows not with every change: it takes longer than a frame.
    if (performance.now() - time.at < 20 * time.took) return;
    time.sign = sign;
    time.at = performance.now();
    const { svg, past, from, to } = timeLine(width, lookOf());
    $("time").replaceChildren(svg);
    write($("span"), `${clock(from, spanOf() < 900)} to ${endOfSpan(to)}`);
    write($("time-heading"), orWas("Last hour", "Last hour that is known"));
    const held = new Set(past.flatMap((row) => row.cpus)), others = known.fields ? numbers(known.fields.machine.online).filter((cpu) => !held.has(cpu)) : [];
    write($("always"), others.length && past.length ? `Never exclusive in this time: ${cut(list(others), 90)} (${count(others.length, "CPU")})` : "");
    const changes = history.changes.filter((each) => each.at >= from && each.at <= to);
    write($("changes-summary"), `${count(changes.filter((each) => each.container).length, "change")} in this time, with reasons`);
    if ($("changes-box").open) drawChanges(changes);
    time.took = performance.now() - time.at;
  }

  const endOfSpan = (to) => known.zoom.end !== null ? clock(to) : orWas("now", `${clock(to)}${LAST_WORD}`);

  function drawChanges(changes) {
    $("changes-body").replaceChildren(...changes.slice(-200).reverse().map((each) => make("tr", {}, make("td", {}, clock(each.at)),
      each.container ? make("td", { class: "who", dir: "auto", title: each.name }, each.name) : make("td", { colspan: 3 }, "the daemon started"),
      each.container && make("td", {}, cut(each.cpus, 40) || "none"), each.container && make("td", { class: "why" }, foreign(each.reason)))));
  }

  $("changes-box").addEventListener("toggle", () => { time.sign = ""; schedule(); });

  function zoom(factor, at) {
    if (!known.history) return;
    const { end } = known.zoom, span = spanOf(), to = end === null ? now() : end, wanted = Math.min(HOUR, Math.max(10, span * factor));
    const part = at === undefined ? 1 : at, centre = to - span * (1 - part), last = centre + wanted * (1 - part);
    time.took = 0;
    known.zoom = { span: wanted, end: last >= now() - wanted / 50 ? null : Math.max(last, now() - HOUR + wanted) };
    schedule();
  }

  function move(part) {
    if (!known.history) return;
    const { end } = known.zoom, span = spanOf(), to = (end === null ? now() : end) + part * span;
    time.took = 0;
    known.zoom = { span, end: to >= now() ? null : Math.max(to, now() - HOUR + span) };
    schedule();
  }

  $("zoom-in").addEventListener("click", () => zoom(0.5));
  $("zoom-out").addEventListener("click", () => zoom(2));
  $("earlier").addEventListener("click", () => move(-0.5));
  $("later").addEventListener("click", () => move(0.5));
  $("time").addEventListener("keydown", (event) => {
    const does = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), ArrowLeft: () => move(-0.25), ArrowRight: () => move(0.25), Home: () => { known.zoom = { span: null, end: null }; schedule(); } }[event.key];
    if (!does) return;
    event.preventDefault();
    does();
  });
  $("time").addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const box = $("time").getBoundingClientRect();
    zoom(event.deltaY + event.deltaX > 0 ? 1.25 : 0.8, Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)));
  }, { passive: false });
  $("time").addEventListener("click", (event) => {
    const bar = event.target.closest("[data-id]");
    if (bar && known.containers.has(bar.dataset.id)) { if (!known.open.has(bar.dataset.id)) toggle(bar.dataset.id); schedule(); }
  });
  $("save").addEventListener("click", () => {
    if (!known.history) return;
    const look = lookOf(), { svg, from, to } = timeLine(1200, look);
    const high = Number(svg.getAttribute("height")) + 30;
    svg.setAttribute("height", high);
    svg.setAttribute("viewBox", `0 -30 1200 ${high}`);
    svg.prepend(draw("rect", { x: 0, y: -30, width: 1200, height: high, fill: look.paper }),
      draw("text", { x: 10, y: -11, "font-size": 14, "font-weight": 650, fill: look.ink }, `Who had which CPUs, ${new Date(from * 1000).toLocaleDateString()} ${clock(from)} to ${isPresent() ? clock(to) : endOfSpan(to)}`));
    const text = new XMLSerializer().serializeToString(svg);
    const url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    make("a", { href: url, download: `cpus-${new Date(to * 1000).toISOString().slice(0, 19).replaceAll(":", "")}.svg` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  });

  // What would happen.

  let asked = 0; // Questions, so that a late answer is not taken for the one to a later question.

  function forgetPlan() {
    asked++;
    known.plan = null;
    write($("plan-answer"), "");
    $("plan-clear").hidden = true;
    schedule();
  }

  function showPlan(text, cpus) {
    known.plan = cpus ? { cpus: new Map(numbers(cpus).map((cpu) => [cpu, true])) } : null;
    $("plan-answer").className = cpus ? "" : "refused";
    write($("plan-answer"), text);
    $("plan-clear").hidden = false;
    schedule();
  }

  // What is asked, or a sentence on what is no question.
  function planQuery() {
    const cpus = Number($("plan-cpus").value), most = Number($("plan-cpus").max);
    if (!Number.isInteger(cpus) || cpus < 1 || cpus > most) return `A whole number of CPUs is asked for, from 1 to ${most}.`;
    const query = new URLSearchParams({ cpus });
    if ($("plan-numa").value) query.append("label", `cpuset.numa=${$("plan-numa").value}`);
    for (const each of $("plan-labels").value.trim().split(/\s+/).filter(Boolean)) query.append("label", each);
    return query;
  }

  $("plan").addEventListener("submit", async (event) => {
    event.preventDefault();
    forgetPlan();
    const question = asked, query = planQuery();
    if (typeof query === "string") return showPlan(query);
    try {
      const [told] = (await ask(`v1/plan?${query}`)).answers;
      if (question !== asked) return;
      showPlan(told.cpus ? `CPUs ${told.cpus}${told.lie ? ` (${told.lie})` : ""}, as of ${clock(now())}` : `Refused: ${told.reason}`, told.cpus);
    } catch (error) {
      if (question === asked) showPlan(String(error.message));
    }
  });
  // Under another question an answer would be taken for one to it.
  $("plan").addEventListener("input", forgetPlan);
  $("plan-clear").addEventListener("click", forgetPlan);

  $("fold").addEventListener("click", () => { known.isUnfolded = !known.isUnfolded; schedule(); });
  $("filters").addEventListener("input", () => schedule());
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  dark.addEventListener("change", () => { time.sign = ""; schedule(); });
  addEventListener("resize", hideTip);
  addEventListener("scroll", hideTip, { passive: true });

  // The head: what the machine is used for, and whether this is true now.

  // What may be said of the daemon now. With another state all is drawn: each clause has another tense.
  function judge() {
    const isSilent = (Date.now() - known.heard) / 1000 > SILENT_SECONDS;
    const state = known.link !== "live" ? known.link : !known.fields ? "connecting" : isSilent || !known.vouched ? "unvouched" : "live";
    if (state === known.state) return;
    known.state = state;
    time.sign = "";
    time.took = 0;
    time.at = -Infinity;
    schedule();
  }

  function drawHead() {
    const f = known.fields, body = document.body, state = known.state;
    if (body.className !== `is-${state}`) body.className = `is-${state}`;
    write($("live-text"), { live: "live", gone: "not connected", unvouched: "unvouched", connecting: "connecting" }[state]);
    const since = () => `${clock(known.since / 1000)} (${ago((Date.now() - known.since) / 1000)})`;
    const banner = state === "gone" ? `The daemon cannot be reached since ${since()}. This is what it last said. The page tries again by itself.`
      : state === "unvouched" && f && !f.is_ready ? "The daemon waits for its engine, and vouches for nothing: this is what was last seen."
        : state === "unvouched" ? "Unvouched: the daemon answers, but is stopped, stalled or stuck. This is its last word." : "";
    $("banner").hidden = !banner;
    write($("banner"), banner);
    if (!f) return;
    const engine = f.engine ? `${f.engine.name} ${f.engine.version}` : "no engine yet", many = (cpus) => numbers(cpus).length;
    const own = new Set([...numbers(f.reserved), ...numbers(f.exclusive)]);
    const pool = numbers(f.shared).filter((cpu) => !own.has(cpu)).length;
    const parts = [`${f.policy}${f.options.length ? ` (${f.options.join(", ")})` : ""} on ${engine}`, `${count(many(f.machine.online), "CPU")}: ${many(f.exclusive)} exclusive, ${many(f.reserved)} reserved, ${pool} shared`];
    if (f.policy !== "none") parts.push(f.waiting ? `${f.waiting} ${orWas("waiting", "waited")}` : `${f.free} ${orWas("", "were ")}free to grant`);
    write($("summary"), parts.join(" · "));
    const problems = [...f.problems.map((each) => [inTense(each)]), ...[...known.containers.values()].filter((c) => c.trouble || c.clash).slice(0, 8).map((c) => [cut(c.name, 60), c.trouble || inTense(c.clash)])];
    const sign = JSON.stringify(problems);
    $("problems").hidden = !problems.length;
    if ($("problems").sign !== sign) {
      $("problems").sign = sign;
      $("problems").replaceChildren(...problems.map((each) => make("li", {}, foreign(each.join(": ")))));
    }
    write($("foot"), `cpuset-sidecar ${f.program}. Nothing can be changed from this page.${f.hand ? ` ${f.hand.text[0].toUpperCase()}${inTense(f.hand.text).slice(1)}.` : ""}`);
  }

  function countDown() {
    for (const each of known.containers.values()) {
      if (!each.leaving || each.leaving.is_due) continue;
      const left = (Date.parse(each.leaving.until) / 1000 - now()) / (each.leaving.notice_seconds || 1);
      for (const cpu of numbers(each.leaving.cpus)) {
        const cell = map.drawn.get(cpu);
        if (cell && cell.classList.contains("leaving")) cell.style.setProperty("--left", `${Math.min(1, Math.max(0, left || 0))}`);
      }
    }
  }

  // One drawing a frame.

  let isScheduled = false, isChanged = true, isPainted = false;

  // Draw in the next frame. Without a change of what is known, time alone has passed, or somebody looks elsewhere.
  function schedule(hasChanged = true) {
    isChanged = isChanged || hasChanged;
    if (isScheduled) return;
    isScheduled = true;
    requestAnimationFrame(() => {
      isScheduled = false;
      const began = performance.now();
      judge();
      drawHead();
      // The first frame has what the page has without the daemon: of a big machine the next one takes long.
      if (!isPainted) setTimeout(() => { isPainted = true; schedule(); });
      else if (known.fields) {
        if (isChanged) drawMachine();
        drawTenants();
        if (time.isSeen) drawTime();
        drawDetails();
        countDown();
      }
      isChanged = isChanged && !isPainted;
      window.drawn = { took: performance.now() - began, frames: (window.drawn ? window.drawn.frames : 0) + 1 };
    });
  }

  // The time line is drawn as it changes while it is looked at. A picture of the whole page has it in any case, and
  // paper has it as it is then.
  addEventListener("beforeprint", () => { time.took = 0; if (known.fields) drawTime(); });
  new IntersectionObserver((entries) => {
    time.isSeen = entries[entries.length - 1].isIntersecting;
    schedule(false);
  }, { rootMargin: "200px" }).observe($("time"));
  new ResizeObserver(() => { if (measure()) schedule(); }).observe($("main"));

  setInterval(() => {
    if (document.hidden) return;
    judge();
    drawHead();
    if (!known.fields) return;
    const isLeaving = [...known.containers.values()].some((each) => each.leaving);
    if (isLeaving || time.isSeen) schedule(false);
    if (!time.isSeen && isPainted && performance.now() - time.at > UNSEEN_MS) drawTime();
  }, 500);

  // What the daemon says.

  let retry = 500, stream = null, waiting = 0;

  function connect() {
    stream = new EventSource("v1/live");
    const hear = (name, take) => stream.addEventListener(name, (event) => {
      known.heard = Date.now();
      take(parse(event.data));
      if (known.vouched) known.told = known.heard / 1000 + known.skew;
      judge();
      schedule();
    });
    const at = (told) => {
      if (known.link !== "live") { known.link = "live"; known.since = Date.now(); retry = 500; }
      if (known.vouched !== told.vouched) { known.vouched = told.vouched; known.since = Date.now(); }
      known.skew = told.now - Date.now() / 1000;
    };
    hear("status", (told) => {
      at(told.at);
      known.fields = told.fields;
      known.containers = new Map(told.containers.map((each) => [each.id, each]));
      for (const each of holders()) slotOf(each.id);
      readHistory();
    });
    hear("difference", (told) => {
      at(told.at);
      Object.assign(known.fields, told.fields);
      for (const id of told.gone) known.containers.delete(id);
      for (const each of told.containers) known.containers.set(each.id, each);
      for (const each of holders()) slotOf(each.id);
      prune();
    });
    hear("lease", at);
    hear("grants", (changes) => { if (known.history) { known.history.changes.push(...changes); prune(); } });
    hear("missed", readHistory);
    hear("change", announce);
    stream.onerror = () => {
      // The browser would try again by itself, but not after an answer such as 503.
      disconnect();
      if (known.link === "live" || known.link === "connecting") { known.link = "gone"; known.since = Date.now(); }
      schedule();
      if (!isResting) waiting = setTimeout(connect, retry);
      retry = Math.min(4000, retry * 1.6);
    };
  }

  function disconnect() {
    clearTimeout(waiting);
    stream?.close();
    stream = null;
  }

  // A browser opens six connections to a host, and each live stream is one: a tab that nobody sees gives its own back.
  let isResting = false, tired = 0;

  function goToRest() {
    isResting = true;
    disconnect();
    if (known.link === "live") known.link = "connecting";
    schedule();
  }

  function seenOrNot() {
    clearTimeout(tired);
    if (document.hidden) tired = setTimeout(goToRest, REST_MS);
    else if (isResting) { isResting = false; connect(); schedule(); }
  }

  document.addEventListener("visibilitychange", seenOrNot);

  async function readHistory() {
    try {
      known.history = await ask("v1/history");
    } catch { return; }
    for (const each of [...known.history.began, ...known.history.changes]) if (each.container) slotOf(each.container);
    time.sign = "";
    prune();
    schedule();
  }

  function prune() {
    const history = known.history;
    if (!history) return;
    const oldest = now() - HOUR;
    if (history.changes.length && history.changes[0].at < oldest - 60) {
      const began = new Map(history.began.map((each) => [each.container, each]));
      while (history.changes.length && history.changes[0].at < oldest) {
        const each = history.changes.shift();
        if (!each.container) continue;
        began.delete(each.container);
        if (each.cpus) began.set(each.container, each);
      }
      history.began = [...began.values()];
      history.since = oldest;
    }
    forget();
  }

  // Announced to those who hear the page, in sentences, not faster than they can be heard.
  let said = [], isSaying = false;

  function announce(change) {
    said.push([change.message, change.container, change.cpus || change.to, change.reason].filter((each) => each && typeof each === "string").join(", "));
    if (isSaying) return;
    isSaying = true;
    setTimeout(() => {
      isSaying = false;
      const most = said.slice(-3), more = said.length - most.length;
      said = [];
      write($("said"), cut(`${most.join(". ")}${more ? `. And ${count(more, "change")} more` : ""}`, 400));
    }, 2000);
  }

  connect();
  seenOrNot();
  schedule();
})();
