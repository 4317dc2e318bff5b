//! Mount tables of the hosts we know, on a directory tree in place of /sys/fs/cgroup.

use super::*;

const APART: &str = "\
31 23 0:28 / @ rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / @/cpu rw,relatime shared:4 - cgroup cgroup rw,cpu
33 31 0:30 / @/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
34 31 0:31 / @/cpuset rw,relatime - cgroup cgroup rw,cpuset
35 31 0:32 / @/memory rw,relatime - cgroup cgroup rw,memory
36 31 0:33 / @/freezer rw,relatime - cgroup cgroup rw,freezer
40 31 0:37 / @/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / @/unified rw,relatime - cgroup2 cgroup2 rw
";
const TOGETHER: &str = "\
30 25 0:26 / @ ro,nosuid - tmpfs tmpfs ro,mode=755
31 30 0:27 / @/systemd rw - cgroup cgroup rw,xattr,name=systemd
34 30 0:30 / @/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct
35 30 0:31 / @/cpuset rw,nosuid - cgroup cgroup rw,cpuset
";
const UNIFIED: &str =
    "35 24 0:30 / @ rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n";
const NONE: &str = "24 1 8:1 / / rw,relatime - ext4 /dev/root rw\n";

struct Host {
    dir: tempfile::TempDir,
    table: String,
}

impl Host {
    fn new(table: &str, controllers: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let table = table.replace('@', dir.path().to_str().unwrap());
        for mount in mounts_of(&table) {
            std::fs::create_dir_all(&mount.point).unwrap();
        }
        for (at, text) in controllers {
            std::fs::create_dir_all(dir.path().join(at)).unwrap();
            std::fs::write(dir.path().join(at).join(v2::CONTROLLERS), text).unwrap();
        }
        Self { dir, table }
    }

    fn detect(&self, settings: &Settings) -> Result<Layout, String> {
        self.detect_as(settings, true, "0::/\n")
    }

    fn detect_as(&self, settings: &Settings, root: bool, own: &str) -> Result<Layout, String> {
        detect(
            settings,
            &self.table,
            &Caller {
                root,
                own: own.to_owned(),
            },
        )
    }
}

fn roles(layout: &Layout) -> Vec<Vec<Role>> {
    layout.hierarchies.iter().map(|h| h.roles.clone()).collect()
}

#[test]
fn v1_mounted_apart_beside_a_v2_without_cpu() {
    let host = Host::new(APART, &[("unified", "")]);
    let layout = host.detect(&Settings::default()).unwrap();
    assert_eq!(layout.version, Version::V1);
    assert_eq!(
        roles(&layout),
        [
            [Role::Cpu],
            [Role::Accounting],
            [Role::Cpuset],
            [Role::Freezer]
        ]
    );
    assert_eq!(
        layout.hierarchies[0].root,
        host.dir.path().join("cpu/libra")
    );
    let never = Settings {
        pin: Pin::Never,
        ..Settings::default()
    };
    assert_eq!(roles(&host.detect(&never).unwrap()).len(), 3);
    let only_v2 = Settings {
        version: VersionChoice::V2,
        ..Settings::default()
    };
    assert!(
        host.detect(&only_v2)
            .unwrap_err()
            .ends_with("unified has no cpu controller")
    );
}

#[test]
fn v1_mounted_together() {
    let host = Host::new(TOGETHER, &[]);
    let layout = host
        .detect(&Settings {
            root: Some("pbs/libra".into()),
            ..Settings::default()
        })
        .unwrap();
    assert_eq!(
        roles(&layout),
        [vec![Role::Cpu, Role::Accounting], vec![Role::Cpuset]]
    );
    assert_eq!(
        layout.hierarchies[0].root,
        host.dir.path().join("cpu,cpuacct/pbs/libra")
    );
}

#[test]
fn v2_for_root() {
    let host = Host::new(UNIFIED, &[("", "cpuset cpu io memory pids\n")]);
    let layout = host.detect(&Settings::default()).unwrap();
    assert_eq!(layout.version, Version::V2);
    assert_eq!(
        roles(&layout),
        [[Role::Cpu, Role::Accounting, Role::Cpuset]]
    );
    assert_eq!(layout.hierarchies[0].root, host.dir.path().join("libra"));
    assert_eq!(layout.delegated, None);
}

#[test]
fn v2_in_a_container() {
    let host = Host::new(UNIFIED, &[("", "cpu io\n")]);
    std::fs::write(host.dir.path().join(v2::TYPE), "domain\n").unwrap();
    for root in [None, Some("mine".to_owned())] {
        let settings = Settings {
            root: root.clone(),
            ..Settings::default()
        };
        let layout = host.detect(&settings).unwrap();
        let below = root.as_deref().unwrap_or(DEFAULT_ROOT);
        assert_eq!(layout.hierarchies[0].root, host.dir.path().join(below));
        assert_eq!(layout.delegated.as_deref(), Some(host.dir.path()));
    }
    // Somebody else's container, by its mount.
    let table = UNIFIED.replace(" / @", " /docker/1234 @");
    let host = Host::new(&table, &[("", "cpu io\n")]);
    std::fs::write(host.dir.path().join(v2::TYPE), "domain\n").unwrap();
    for (own, is_ours) in [("/user.slice", false), ("/docker/1234/libra-agent", true)] {
        let own = format!("0::{own}\n");
        let layout = host.detect_as(&Settings::default(), true, &own).unwrap();
        assert_eq!(layout.delegated.is_some(), is_ours, "{own}");
    }
}

#[test]
fn v2_below_the_agents_unit() {
    let host = Host::new(UNIFIED, &[("", "cpu io\n"), (UNIT, "cpu\n")]);
    let layout = host.detect(&Settings::default()).unwrap();
    assert_eq!(
        layout.hierarchies[0].root,
        host.dir.path().join(UNIT).join("jobs")
    );
    assert_eq!(layout.delegated, Some(host.dir.path().join(UNIT)));
}

#[test]
fn v2_for_an_ordinary_user() {
    let own = "user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope";
    let host = Host::new(UNIFIED, &[("", "cpu io\n"), (own, "cpu memory pids\n")]);
    for line in [
        format!("0::/{own}\n"),
        format!("1:name=systemd:/x\n0::/{own}/{LEAF}\n"),
    ] {
        let layout = host.detect_as(&Settings::default(), false, &line).unwrap();
        assert_eq!(
            layout.hierarchies[0].root,
            host.dir.path().join(own).join("jobs")
        );
    }
    std::fs::write(
        host.dir.path().join(own).join(v2::CONTROLLERS),
        "memory pids\n",
    )
    .unwrap();
    let reason = host
        .detect_as(&Settings::default(), false, &format!("0::/{own}\n"))
        .unwrap_err();
    assert!(reason.contains("Delegate=cpu"), "{reason}");
    let reason = host
        .detect_as(&Settings::default(), false, "0::/\n")
        .unwrap_err();
    assert!(reason.contains("ordinary user"), "{reason}");
}

#[test]
fn nothing_mounted_or_not_to_be_seen() {
    let reason = Host::new(NONE, &[])
        .detect(&Settings::default())
        .unwrap_err();
    assert_eq!(
        reason,
        "cgroup v2 is not mounted; the cgroup v1 cpu controller is not mounted"
    );
    let host = Host::new(APART, &[]);
    std::fs::remove_dir(host.dir.path().join("cpu")).unwrap();
    let reason = host.detect(&Settings::default()).unwrap_err();
    assert!(reason.contains("not to be seen"), "{reason}");
}

#[test]
fn roots_that_leave_the_mount_are_refused() {
    let host = Host::new(APART, &[]);
    for root in ["", "/", "../x", "a/../../b"] {
        let settings = Settings {
            root: Some(root.into()),
            version: VersionChoice::V1,
            ..Settings::default()
        };
        let reason = host.detect(&settings).unwrap_err();
        assert!(
            reason.contains("not a path below the mount"),
            "{root}: {reason}"
        );
    }
}

#[test]
fn blanks_in_mount_points() {
    assert_eq!(unescape("/sys/a\\040b\\x"), Path::new("/sys/a b\\x"));
}

#[test]
fn a_mount_that_one_reading_leaves_out_is_found() {
    let mut readings = ["a\nb\nc\n", "a\nc\n", "a\nc\nd\n", "a\nc\nd\n", "e\n"].into_iter();
    let read = || Ok(readings.next().expect("not so many").to_owned());
    assert_eq!(agreed(read).expect("a table"), "a\nc\nd\n");
    let mut count = 0;
    let restless = agreed(|| {
        count += 1;
        Ok(count.to_string())
    });
    assert_eq!(restless.expect("the last one"), READINGS.to_string());
}
