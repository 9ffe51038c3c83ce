#!/bin/sh
# Pin every base image to what its tag names today, after a look at what changed: sh deploy/pin-images.sh
# It needs Docker and a network. Build and test the images afterwards, as a change of any other dependency.
set -eu
cd "$(dirname "$0")/.."
files="Dockerfile docker-compose.yml docker-compose.demo.yml"
grep -hoE '(FROM|image:) [^ ]+@sha256:[0-9a-f]{64}' $files | sed 's/^[^ ]* //' | sort -u | while read -r pinned; do
	name=${pinned%@*}
	digest=$(docker buildx imagetools inspect "$name" --format '{{.Manifest.Digest}}')
	case $digest in
	sha256:*) ;;
	*) echo "no digest of $name: $digest" >&2; exit 1 ;;
	esac
	if [ "$pinned" != "$name@$digest" ]; then
		echo "$name: ${pinned#*@} becomes $digest"
		for file in $files; do
			sed "s|$pinned|$name@$digest|" "$file" > "$file.new" && cat "$file.new" > "$file" && rm "$file.new"
		done
	fi
done
