"""The sentences that people read, and the rules for them, here and wherever a message of the program is written.

1. A message says what is so, then why, then what to do: `SITUATION, REASON: IMPERATIVE`. Each part may be missing.
2. A message is a clause: lower case, no full stop. It follows a prefix (`cpuset-sidecar: `, `cure: `, a log level)
   or is part of another message. Its parts are joined by `:` and `;`, never by a full stop.
3. What `explain` prints, and what describes a command, are sentences: a capital letter and a full stop.
4. A container is *it*. What it may have in exclusive use are *exclusive CPUs*, which are granted, reserved or released.
   What the sidecar has on disk is *recorded* (state, grant).
5. Numbers have units, and agree: `1 CPU`, `2 CPUs`, `0.5 s`. counts.py makes these.
6. Foreign text is quoted as `repr` does it, and cut. Names of containers, labels and keys have no quotes; commands to
   run have backquotes.

tests/words/test_voice.py holds what can be held.
"""
