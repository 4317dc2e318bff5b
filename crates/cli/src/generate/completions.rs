//! What only the program itself knows, in the completions of shells: ids of jobs, policies, accounts, projects. Shells ask `libra complete`.
//!
//! clap_complete writes what can be typed from the arguments alone; this puts the questions into it.

use crate::args::Args;
use clap::{Command, CommandFactory};
use clap_complete::Shell;

/// Commands as they are completed: without those that nobody types.
pub fn command() -> Command {
    let all = Args::command();
    let visible = all.get_subcommands().filter(|one| !one.is_hide_set());
    Command::new("libra")
        .version(env!("CARGO_PKG_VERSION"))
        .args(all.get_arguments().cloned())
        .subcommands(visible.cloned())
}

/// The script that clap_complete has made for a shell, with questions for values.
pub fn with_values(shell: Shell, made: &str) -> String {
    match shell {
        Shell::Bash => bash(made),
        Shell::Zsh => zsh(made),
        Shell::Fish => format!("{made}{FISH}"),
        _ => made.to_string(),
    }
}

/// Its function is called by another one, which knows more.
fn bash(made: &str) -> String {
    let registered = made
        .find("\nif [[ \"${BASH_VERSINFO[0]}\" -eq 4")
        .unwrap_or(made.len());
    let (functions, last) = made.split_at(registered);
    let last = last.replace("complete -F _libra ", "complete -F _libra_and_values ");
    format!("{functions}{BASH}{last}")
}

/// Its default for a value gives way to a function of ours.
fn zsh(made: &str) -> String {
    let registered = made.find("\nif [ \"$funcstack[1]\"").unwrap_or(made.len());
    let (functions, last) = made.split_at(registered);
    let lines = functions.lines().map(|line| {
        let asks = ZSH_VALUES
            .iter()
            .find(|(begins, part, _)| line.starts_with(begins) && line.contains(part));
        match asks {
            Some((_, _, function)) => line.replace(":_default'", &format!(":{function}'")) + "\n",
            None => format!("{line}\n"),
        }
    });
    lines.collect::<String>() + ZSH + last
}

/// How a line of zsh's begins, what is in it, and the function that knows its values.
const ZSH_VALUES: [(&str, &str, &str); 9] = [
    ("'*::jobs -- Only these", "", "_libra_all_jobs"),
    ("'*::jobs -- Job ids", "", "_libra_jobs"),
    ("'*--policy=[", "", "_libra_policies"),
    ("'--project=[", "", "_libra_projects"),
    ("':account -- ", "", "_libra_accounts"),
    ("'::account -- ", "", "_libra_accounts"),
    ("':from -- ", "account", "_libra_accounts"),
    ("':to -- ", "account", "_libra_accounts"),
    ("':credits -- ", "", "_message"),
];

const BASH: &str = r#"
# Values that libra itself knows. Words are taken from the line, since bash splits them at ':' and '='.
_libra_and_values() {
    local line word first="" second="" before="" what="" keep="" list found
    _libra "$@"
    line=${COMP_LINE:0:COMP_POINT}
    word=${line##*[[:space:]]}
    for found in ${line% *}; do
        case "$found" in
            -*) ;;
            *)
                if [[ "$before" == --* && "$before" != *=* && "$before" != --json && "$before" != --verbose && "$before" != --watch ]]; then
                    :
                elif [[ -z "$first" ]]; then
                    first=:
                elif [[ "$first" == : ]]; then
                    first=$found
                elif [[ -z "$second" ]]; then
                    second=$found
                fi
                ;;
        esac
        before=$found
    done
    case "$word" in
        --policy=* | --project=*)
            before=${word%%=*}
            word=${word#*=}
            ;;
    esac
    case "$before" in
        --policy) what=policies keep=${word%"${word##*,}"} ;;
        --project) what=projects ;;
        --config | --interval | --sort | --system | --from | --until | --note | --month | --member | --no-member | --overdraft) return 0 ;;
        *)
            case "$first/$second" in
                cancel/*) what=jobs ;;
                status/*) what=all-jobs ;;
                account/create | account/deposit | account/balance | account/statement | account/close | account/transfer) what=accounts ;;
            esac
            ;;
    esac
    if [[ -z "$what" || "$word" == -* ]]; then return 0; fi
    list=$("$1" complete "$what" 2>/dev/null | cut -f 1)
    COMPREPLY=()
    for found in $list; do
        found=$keep$found
        # Bash puts in what comes behind the last of the characters that it splits at.
        if [[ "$found" == "$word"* ]]; then
            line=${word##*[:=]}
            COMPREPLY+=("${found:${#word}-${#line}}")
        fi
    done
}
"#;

const ZSH: &str = r#"
# Values that libra itself knows.
_libra_ask() {
    reply=(${(f)"$(libra complete "$1" 2>/dev/null)"})
}
_libra_jobs() {
    local -a reply
    _libra_ask jobs
    reply=(${reply/$'\t'/:})
    _describe -t jobs job reply
}
_libra_all_jobs() {
    local -a reply
    _libra_ask all-jobs
    reply=(${reply/$'\t'/:})
    _describe -t jobs job reply
}
_libra_policies() {
    local -a reply
    _libra_ask policies
    _sequence compadd - ${reply%%$'\t'*}
}
_libra_accounts() {
    local -a reply
    _libra_ask accounts
    compadd - ${reply%%$'\t'*}
}
_libra_projects() {
    local -a reply
    _libra_ask projects
    compadd - ${reply%%$'\t'*}
}
"#;

const FISH: &str = r#"
# Values that libra itself knows.
complete -c libra -n "__fish_libra_using_subcommand cancel" -f -a "(libra complete jobs 2>/dev/null)"
complete -c libra -n "__fish_libra_using_subcommand status" -f -a "(libra complete all-jobs 2>/dev/null)"
complete -c libra -n "__fish_libra_using_subcommand simulate" -l policy -x -a "(__fish_complete_list , 'libra complete policies 2>/dev/null')"
complete -c libra -n "__fish_libra_using_subcommand run quote" -l project -x -a "(libra complete projects 2>/dev/null)"
complete -c libra -n "__fish_libra_using_subcommand account; and __fish_seen_subcommand_from create deposit balance statement close transfer" -f -a "(libra complete accounts 2>/dev/null)"
"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn made(shell: Shell) -> String {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command(), "libra", &mut text);
        String::from_utf8(text).expect("text")
    }

    /// The paths of all commands that do something: `account balance`.
    fn leaves(command: &Command, path: &str, all: &mut Vec<String>) {
        let shown = |one: &&Command| !one.is_hide_set() && one.get_name() != "help";
        let below: Vec<&Command> = command.get_subcommands().filter(shown).collect();
        if below.is_empty() {
            all.push(path.to_string());
        }
        for one in below {
            leaves(one, format!("{path} {}", one.get_name()).trim_start(), all);
        }
    }

    #[test]
    fn what_each_command_prints_as_json_is_documented() {
        let page = include_str!("../../../../docs/json.md");
        let mut all = Vec::new();
        leaves(&Args::command(), "", &mut all);
        assert!(all.contains(&"account balance".to_string()), "{all:?}");
        for path in all {
            let first = path.split(' ').next().unwrap_or_default();
            // `libra account … --json` is all others of it; what installs is written down once for three systems.
            let family = format!("`libra {first} … --json`");
            let installs = path.ends_with(" install") || path.ends_with(" uninstall");
            let known = page.contains(&format!("`libra {path} "))
                || page.contains(&format!("`libra {path}`"))
                || page.contains(&family)
                || installs && page.contains(&format!("`libra {first}`"));
            assert!(known, "docs/json.md says nothing of 'libra {path}'");
        }
    }

    #[test]
    fn the_questions_find_their_places() {
        let bash = with_values(Shell::Bash, &made(Shell::Bash));
        assert!(!bash.contains("complete -F _libra "), "{bash}");
        assert_eq!(bash.matches("complete -F _libra_and_values ").count(), 2);
        let zsh = with_values(Shell::Zsh, &made(Shell::Zsh));
        for (_, _, function) in ZSH_VALUES {
            assert!(zsh.contains(&format!(":{function}'")), "{function}");
        }
        assert!(zsh.find("_libra_ask()") < zsh.find("funcstack"), "{zsh}");
    }

    #[test]
    fn what_nobody_types_is_not_completed() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = made(shell);
            assert!(
                text.contains("simulate") && !text.contains("generate"),
                "{shell}"
            );
        }
    }
}
