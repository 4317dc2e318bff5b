# shellcheck shell=bash
# A PostgreSQL server for tests (postgres.rs, batch/postgres.py), with all that it has below one directory: `bash -c "$(cat postgres.sh)" watch DIRECTORY BIN`.
# It is begun again at each line "begin" that is read. When there is nothing more to read, as whoever wants it has ended or was killed, it ends, and its
# directory goes.
directory=$1
bin=$2
server=''

# Started by the trap.
# shellcheck disable=SC2317,SC2329
end() {
    if [ -n "$server" ]; then
        # A test that was killed may have left it stopped.
        { read -r -a processes </proc/"$server"/task/"$server"/children; } 2>/dev/null
        kill -CONT "$server" "${processes[@]}" 2>/dev/null
        kill -INT "$server" 2>/dev/null
    fi
    wait 2>/dev/null
    # One that was killed, and not begun again, has left a piece of shared memory of the system's, and its number.
    { segment=$(awk 'NR == 7 { print $2 }' "$directory/data/postmaster.pid"); } 2>/dev/null
    [ -z "$segment" ] || ipcrm -m "$segment" 2>/dev/null
    rm -rf "$directory"
}
begin() {
    # What shared memory it can have in files goes with the directory.
    "$bin/postgres" -D "$directory/data" -k "$directory" -c listen_addresses= -c fsync=off -c max_connections=60 -c dynamic_shared_memory_type=mmap \
        >>"$directory/log" 2>&1 &
    server=$!
    # Whole, whenever it is read.
    echo "$server" >"$directory/server.new"
    mv "$directory/server.new" "$directory/server"
}

trap end EXIT
# Processes are killed here, no machines: nothing has to be on the disk.
if ! "$bin/initdb" -D "$directory/data" -U libra -A trust -E UTF8 --no-locale --no-sync >"$directory/log" 2>&1; then
    tail -n 20 "$directory/log" >&2
    exit 1
fi
begin
while read -r word; do
    [ "$word" = begin ] || continue
    # What bash says of one that was killed was wanted.
    wait "$server" 2>/dev/null
    begin
done
