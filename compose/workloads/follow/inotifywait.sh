#!/bin/sh
# One worker process for each CPU, in shell, with inotifywait (package inotify-tools) and taskset (util-linux).
#
#   inotifywait.sh COMMAND [ARGUMENT ...]      the command is started once for each CPU, bound to it
#
# When a CPU is about to be taken, its worker is ended first, and that is acknowledged.

dir=${CPUSET_SIDECAR_DIR:-/run/cpuset-sidecar/by-id/$(hostname)}
[ $# -gt 0 ] || set -- sleep 1000000
own=$(mktemp -d) # a file cpuN for each CPU that has a worker, with its process number
followed=

# A field of status.json. There is no white space between its tokens, and a quotation mark inside of a text has a
# backslash before it, so that nothing else can look like a field.
text() {
    printf '%s\n' "$status" | sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"
}
number() {
    printf '%s\n' "$status" | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"
}

# A CPU list, 0-2,8, as words: 0 1 2 8.
words() {
    for part in $(echo "$1" | tr , ' '); do seq "${part%-*}" "${part#*-}"; done | tr '\n' ' '
}

end_worker() {
    kill "$(cat "$own/cpu$1")"
    wait "$(cat "$own/cpu$1")"
    rm "$own/cpu$1"
}

# Whether the daemon vouches for what is read: it renews the time of the file `lease`, which counts for some seconds. That
# time is looked at before the status is read: so what is read is at least as new. If not, keep what you have; others may
# be there by now.
is_vouched() {
    [ ! -L "$dir/lease" ] && age=$(($(date +%s) - $1)) && [ "$age" -ge -1 ] && [ "$age" -le "$(number lease_seconds)" ]
} 2>/dev/null

look() {
    renewed=$(stat -c %Y "$dir/lease" 2>/dev/null || echo 0)
    status=$(cat "$dir/status.json" 2>/dev/null) || return 0
    cpus=$(text cpus) leaving=$(text leaving) generation=$(number generation)
    unvouched=
    is_vouched "$renewed" || unvouched=", unvouched"
    # No CPUs: nothing can be said just now. Keep what you have.
    [ -n "$cpus" ] && [ "$generation$unvouched" != "$followed" ] || return 0
    followed=$generation$unvouched
    echo "CPUs $cpus${leaving:+, leaving $leaving}$unvouched"

    usable=
    for cpu in $(words "$cpus"); do
        case " $(words "$leaving") " in *" $cpu "*) ;; *) usable="$usable $cpu" ;; esac
    done
    # 1. Leave: the workers whose CPUs go, and this shell.
    for file in "$own"/cpu*; do
        [ -e "$file" ] || continue
        cpu=${file##*/cpu}
        case "$usable " in *" $cpu "*) ;; *) end_worker "$cpu" ;; esac
    done
    for process in $$ $watcher; do
        taskset -cp "$(echo $usable | tr ' ' ,)" "$process" >/dev/null 2>&1
    done
    # 2. Say so, with the generation that asked for it.
    [ -z "$leaving" ] || echo "$generation" >"$dir/ack"
    # 3. Take up what came.
    for cpu in $usable; do
        [ -e "$own/cpu$cpu" ] && continue
        taskset -c "$cpu" "$@" 3<&- &
        echo $! >"$own/cpu$cpu"
    done
}

end() {
    kill $watcher $(cat "$own"/cpu* 2>/dev/null)
    rm -r "$own"
    exit 0
}

command -v inotifywait >/dev/null || { echo "there is no inotifywait here" >&2 && exit 1; }
until [ -d "$dir" ]; do sleep 1; done
mkfifo "$own/news"
trap end TERM INT
while :; do
    # It says on stderr when it has begun to listen: what changed before that is looked at then. It ends at the first
    # change, or after ten seconds, since some file systems make no events.
    inotifywait -t 10 -e moved_to "$dir" >"$own/news" 2>&1 &
    watcher=$!
    while read -r _; do look "$@"; done <"$own/news"
    wait $watcher
done
