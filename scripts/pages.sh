#!/usr/bin/env bash
# Writes man pages and shell completions of programs that are built: scripts/pages.sh PROGRAMS SHARE [ZSH]. PROGRAMS is
# their folder, such as target/release, SHARE a folder such as /usr/local/share, ZSH the folder of functions of zsh in
# it.
set -euo pipefail
umask 022 # other users read the pages, whoever installs them
built=$1 share=$2 zsh=${3:-site-functions}
mkdir -p "$share"/{man/man1,bash-completion/completions,"zsh/$zsh",fish/vendor_completions.d}
for program in wirepath wirepath-images wirepath-records; do
  "$built/$program" manual "$share/man/man1"
  "$built/$program" completions bash >"$share/bash-completion/completions/$program"
  "$built/$program" completions zsh >"$share/zsh/$zsh/_$program"
  "$built/$program" completions fish >"$share/fish/vendor_completions.d/$program.fish"
done
