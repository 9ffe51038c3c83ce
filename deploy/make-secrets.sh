#!/bin/sh
# Makes the secrets of docker-compose.yml, each once, as files that only their readers can read. A variable that is set
# replaces what was made; POSTGRES_PASSWORD counts before the first start only, as PostgreSQL then keeps its own.
#   usage: make-secrets.sh [FOLDER]
# The groups are those that the containers are given by group_add.
set -eu
umask 077
folder=${1:-/run/prudent}
KEY_READERS=${KEY_READERS-10001} GRAFANA=${GRAFANA-10002} PRUDENT_USER=${PRUDENT_USER-10001}

# write FILE OWNER MODE: what comes on standard input, in one step
write() {
    cat > "$folder/.new"
    [ -z "$2" ] || chown "$2" "$folder/.new"
    chmod "$3" "$folder/.new"
    mv "$folder/.new" "$folder/$1"
}

# secret FILE VALUE OWNER MODE: the value or, where it is empty and there is no file yet, 256 random bits
secret() {
    if [ -n "$2" ]; then
        printf %s "$2" | write "$1" "$3" "$4"
    elif [ ! -s "$folder/$1" ]; then
        head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' | write "$1" "$3" "$4"
    fi
}

secret postgres-password "${POSTGRES_PASSWORD:-}" '' 0400
secret admin-key "${PRUDENT_ADMIN_KEY:-}" "${KEY_READERS:+:$KEY_READERS}" 0440
secret grafana-password "${GRAFANA_PASSWORD:-}" "${GRAFANA:+:$GRAFANA}" 0440
# as libpq wants it: nobody else may read it, and : and \ are escaped
printf '*:*:*:prudent:%s\n' "$(sed 's/[\\:]/\\&/g' "$folder/postgres-password")" | write pgpass "$PRUDENT_USER" 0400
chmod 0711 "$folder"

cat <<'TEXT'
The admin's key, for X-API-Key and for the dashboard, is shown by
  docker compose exec worker cat /run/prudent/admin-key
TEXT
