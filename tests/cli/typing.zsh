# Types a line into a zsh on a terminal and prints what its completion offers, one a line: DIRECTORY of the completions, LINE.
zmodload zsh/zpty
zpty shell zsh -f -i
say() { zpty -w shell "$1" }
say 'PROMPT= RPROMPT=; unset zle_bracketed_paste; setopt rcquotes; stty -echo'
say "fpath=(${(q)1} \$fpath); autoload -Uz compinit; compinit -u -D"
say 'LISTMAX=10000; zstyle ":completion:*" list-prompt ""'
# Every value goes through compadd. Asked for those that fit, it adds nothing to the line.
say 'compadd() {
    if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
        builtin compadd "$@"
        return
    fi
    local -a offered
    builtin compadd -A offered "$@"
    print -rl -- ${offered/#/offered:}
    builtin compadd "$@"
}'
say 'comppostfuncs=(exit)'
# When it has read all this, it says so.
say 'print -r -- is"-"ready'
while zpty -r shell line; do
    [[ $line == *is-ready* ]] && break
done
zpty -w -n shell "$2"$'\t'
while zpty -r shell line; do
    [[ $line == *offered:* ]] && print -r -- "${${line##*offered:}//[$'\r\n']/}"
done
exit 0
