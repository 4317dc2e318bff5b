//! Keys, defaults, and what is said of mistakes.

use super::*;

#[test]
fn the_printed_defaults_are_the_defaults() {
    let printed = Config::from_toml(DEFAULT_TOML).expect("our own text");
    assert_eq!(printed, Config::default());
    assert_eq!(Config::from_toml("").expect("empty"), Config::default());
}

#[test]
fn every_key_is_printed() {
    // A key with another value than the default shows that the file's key is the one read.
    let changed = DEFAULT_TOML
        .replace("best-fit", "least-loaded")
        .replace("integral-shares = false", "integral-shares = true")
        .replace("estimate-margin = \"5%\"", "estimate-margin = \"10%\"")
        .replace("[\"5%\", \"50%\"]", "[\"6%\", \"60%\"]")
        .replace("reserve = \"5%\"", "reserve = \"3%\"")
        .replace("alpha = 1.0", "alpha = 2.0")
        .replace("rating = 1.0", "rating = 2.0")
        .replace("spare = \"idle\"", "spare = \"shared\"")
        .replace("\"100ms\"", "\"50ms\"")
        .replace("\"what-is-left\"", "\"ended-after 2.5x\"")
        .replace("on-fault = \"refuse\"", "on-fault = \"admit\"")
        .replace("default = \"deadline\"", "default = \"best-effort\"")
        .replace("several = \"default\"", "several = \"immediate\"")
        .replace("queues = {}", "queues = { \"all.q\" = \"immediate\" }")
        .replace("immediate-price = 1.0", "immediate-price = 2.5")
        .replace("dedicated-price = 1.0", "dedicated-price = 1.5")
        .replace("best-effort-price = 0.0", "best-effort-price = 0.1")
        .replace("dedicated = true", "dedicated = false")
        .replace("suspend = \"never\"", "suspend = \"memory\"")
        .replace(
            "without-terms = \"best-effort\"",
            "without-terms = \"leave-alone\"",
        );
    let config = Config::from_toml(&changed).expect("all valid");
    assert_eq!(config.admission.node_choice, NodeChoice::LeastLoaded);
    assert!(config.admission.integral_shares);
    assert_eq!(config.admission.margin(), 0.1);
    assert_eq!(config.admission.learned_margin_bounds.most, Margin(0.6));
    assert_eq!(config.pricing.alpha, Amount(2.0));
    assert_eq!(config.node.rating, Rating(2.0));
    assert_eq!(config.node.reserve, Reserve(0.03));
    assert_eq!(config.cgroup.spare, Spare::Shared);
    assert_eq!(config.cgroup.period, Duration(0.05));
    assert_eq!(config.agent.past_deadline, PastDeadline::EndedAfter(2.5));
    let class = ClassConfig {
        default: ClassName::BestEffort,
        several: SeveralName::Immediate,
        queues: [("all.q".to_string(), PromisedName::Immediate)].into(),
        dedicated: false,
        immediate: true,
        best_effort: true,
        dedicated_price: Factor(1.5),
        immediate_price: Factor(2.5),
        best_effort_price: Amount(0.1),
        suspend: SuspendName::Memory,
    };
    assert_eq!(config.class, class);
    assert_eq!(config.pbs.on_fault, OnFault::Admit);
    assert_eq!(config.pbs.without_terms, WithoutTerms::LeaveAlone);
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    for (text, line, part) in [
        ("[admission]\npolcy = 'libra'", "line 2", "polcy"),
        ("[pricing]\nalpha = -1.0", "line 2", "credits"),
        ("[pricing]\nalpha = nan", "line 2", "credits"),
        ("\n\n[node]\nmemory = 'much'", "line 4", "memory"),
        ("[node]\nprocessors = 0", "line 2", "processors"),
        ("[node]\nreserve = '60%'", "line 2", "0%\" to \"50%"),
        ("[node]\nreserve = 0.05", "line 2", "percent"),
        ("[agent]\ninterval = 'soon'", "line 2", "HH:MM:SS"),
        (
            "[agent]\npast-deadline = 'ended-after 0.5x'",
            "line 2",
            "1 or more",
        ),
        (
            "[agent]\npast-deadline = 'ended-after'",
            "line 2",
            "what-is-left",
        ),
        ("[agent]\npast-deadline = 3", "line 2", "what-is-left"),
        ("[admission]\nestimate-margin = '5'", "line 2", "%"),
        ("[pbs]\non-fault = 'admitt'", "line 2", "`admit`"),
        ("[pbs]\nwithout-terms = 'no'", "line 2", "`other-nodes`"),
        ("[slurm]\ninterval = '10ms'", "", "100ms to 1m"),
        ("[slurm]\nreport-interval = '10ms'", "", "1s to 1d"),
        ("[slurm]\npartitions = 'all'", "line 2", "partitions"),
        ("[gridengine]\ninterval = '2m'", "", "100ms to 1m"),
        (
            "[gridengine]\nwithout-terms = 'other-nodes'",
            "",
            "user_lists",
        ),
        ("[class]\ndefault = 'urgent'", "line 2", "`best-effort`"),
        ("[class]\nimmediate-price = -1", "line 2", "0 to 1e6"),
        ("[class]\nbest-effort-price = 'free'", "line 2", "credits"),
        ("[class]\nsuspend = true", "line 2", "suspend = true"),
        ("[class]\nsuspend = 'disk'", "line 2", "`never`"),
        ("[class]\ndedicated = 'no'", "line 2", "boolean"),
        (
            "[class]\nimmediate = false\ndefault = 'immediate'",
            "",
            "class.immediate is false",
        ),
        ("[class]\nseveral = 'urgent'", "line 2", "`dedicated`"),
        ("[class]\nseveral = 'best-effort'", "line 2", "`immediate`"),
        ("[class]\nseveral = 2", "line 2", "several = 2"),
        (
            "[class]\ndedicated = false\nseveral = 'dedicated'",
            "",
            "class.several is 'dedicated' and class.dedicated is false",
        ),
        ("[class.queues]\nlong = 'urgent'", "line 2", "`dedicated`"),
        (
            "[class.queues]\nlong = 'best-effort'",
            "line 2",
            "`deadline`",
        ),
        ("[class]\nqueues = ['long']", "line 2", "expected a map"),
        (
            "[class.queues]\nlong = 'deadline'\nlong = 'dedicated'",
            "line 3",
            "duplicate key",
        ),
        (
            "[class]\nimmediate = false\n[class.queues]\n'all.q' = 'immediate'",
            "",
            "class.queues.\"all.q\" is 'immediate' and class.immediate is false",
        ),
        (
            "[class.queues]\n'' = 'dedicated'",
            "",
            "'' is no name of a queue",
        ),
        (
            "[class.queues]\n'a b' = 'dedicated'",
            "",
            "'a b' is no name of a queue",
        ),
        (
            "[class.queues]\n'all.q@n1' = 'dedicated'",
            "",
            "there is a '@' in 'all.q@n1'",
        ),
        ("[colour]", "line 1", "colour"),
        ("[cgroup]\nperiod = '2s'", "", "1ms to 1s"),
        ("[cgroup]\nroot = '../x'", "", "without '..'"),
        ("[registry]\ndirectory = 'run'", "", "absolute"),
        ("[accounts]\nledger = 'x'", "", "absolute"),
        ("[accounts]\nmode = 'yes'", "line 2", "`off`"),
        ("[metrics]\nlisten = '9464'", "", "127.0.0.1:9464"),
        ("[metrics]\ndirectory = 'run'", "", "absolute"),
        ("[web]\ntemplates = 'here'", "", "absolute"),
        ("[metrics]\ninterval = '1ms'", "", "1s to 1h"),
        ("[", "line 1", ""),
    ] {
        let error = Config::from_toml(text).expect_err(text).to_string();
        assert!(
            error.contains(line) && error.contains(part),
            "{text}: {error}"
        );
    }
}
