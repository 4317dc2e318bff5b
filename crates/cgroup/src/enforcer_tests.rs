//! The enforcer on plain directories, in place of control groups.

use super::*;

#[test]
fn names() {
    for good in ["12.host", "12[3].host", "a b", "ä", &"x".repeat(200)] {
        assert!(check_name(good).is_ok(), "{good}");
    }
    for bad in ["", ".", "..", "a/b", "/", "a\nb", "a\0b", &"x".repeat(201)] {
        assert!(check_name(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_group_that_cannot_be_furnished_leaves_nothing() {
    // A plain directory instead of a control group file system: no control file appears in it.
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("libra");
    let hierarchies = vec![Hierarchy {
        mount: dir.path().to_owned(),
        root: root.clone(),
        roles: vec![Role::Cpu],
    }];
    let layout = Layout {
        version: Version::V1,
        hierarchies,
        delegated: None,
    };
    let enforcer = Enforcer::new(layout, &Settings::default());
    assert!(enforcer.create("1.host", &Limits::new(0.5, 2.0)).is_err());
    assert!(fs::read_dir(&root).unwrap().next().is_none());
    assert!(
        enforcer
            .remove_root_if_empty(&enforcer.made_root())
            .unwrap()
    );
    assert!(!root.exists());
}

#[test]
fn orphans_are_reported_and_left() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("libra");
    fs::create_dir_all(root.join("stranger")).unwrap();
    let ours = DirectoryRecord::make(&root.join("1.host"), &[Role::Cpu]).unwrap();
    let hierarchies = vec![Hierarchy {
        mount: dir.path().to_owned(),
        root: root.clone(),
        roles: vec![Role::Cpu],
    }];
    let layout = Layout {
        version: Version::V1,
        hierarchies,
        delegated: None,
    };
    let enforcer = Enforcer::new(layout, &Settings::default());
    let record = GroupRecord {
        name: "1.host".into(),
        version: Version::V1,
        capacity: 2.0,
        directories: vec![ours],
        adopted: None,
    };
    let orphans = enforcer.orphans(&[record]).unwrap();
    assert_eq!(orphans.len(), 1);
    assert_eq!(orphans[0].path, root.join("stranger"));
    assert!(
        !enforcer
            .remove_root_if_empty(&RootRecord {
                directories: vec![DirectoryRecord {
                    path: root.clone(),
                    inode: std::os::unix::fs::MetadataExt::ino(&fs::metadata(&root).unwrap()),
                    roles: vec![]
                }]
            })
            .unwrap()
    );
    assert!(root.join("stranger").is_dir());
}
