//! What Slurm 22.05.8 printed on a cluster of three nodes, and the same in 23.02's shape. Fields that nobody reads are left out.

use super::*;
use crate::slurm::status::{of_records, owners};
use crate::status::paint::Paint;
use crate::status::room::Room;
use crate::status::schema::Status;
use libra_config::Config;
use libra_slurm::records::Records;

const COMMITMENT: &str = "v=1:token=1:submitted=1795271000:estimate=600:deadline=1200:budget=15:type=hard:penalty=0:price=10.5:\
                    chunks=1:processors=1:memory=0:scatter=0";

fn squeue() -> String {
    // Every task has a token of its own, from this one on.
    let array = COMMITMENT.replace("token=1:", "token=11:");
    let array = format!("libra:{array}:count=5:at=n59-2*5*0.3:tasks=1-5");
    serde_json::json!({"meta": {"Slurm": {"release": "22.05.8"}}, "errors": [], "jobs": [
        {"job_id": 1, "array_job_id": 0, "array_task_id": null, "array_task_string": "", "job_state": "RUNNING", "nodes": "n59-1",
         "priority": 4294901759_u32, "start_time": 1795271100, "end_time": 1795273609, "user_name": "ann", "user_id": 1009,
         "admin_comment": format!("libra:{COMMITMENT}:count=1:at=n59-1*1*0.5")},
        {"job_id": 7, "array_job_id": 6, "array_task_id": 1, "array_task_string": "", "job_state": "RUNNING", "nodes": "n59-2",
         "priority": 4294901757_u32, "start_time": 1795271100, "end_time": 1826807830, "user_name": "ben", "user_id": 1010,
         "required_nodes": "n59-2", "admin_comment": array},
        {"job_id": 6, "array_job_id": 6, "array_task_id": null, "array_task_string": "2-5%1", "job_state": "PENDING", "nodes": "",
         "priority": 0, "start_time": 0, "end_time": 0, "user_name": "ben", "user_id": 1010, "admin_comment": array},
        {"job_id": 3, "array_job_id": 0, "array_task_id": null, "array_task_string": "", "job_state": "CANCELLED", "nodes": "n59-1",
         "priority": 1, "start_time": 1795271809, "end_time": 1795271830, "user_name": "ann", "user_id": 1009, "admin_comment": ""},
    ]})
    .to_string()
}

const NODES: &str = "\
NodeName=n59-1 Arch=x86_64 CoresPerSocket=1  CPUAlloc=1 CPUEfctv=2 CPUTot=2 CPULoad=2.58 AvailableFeatures=(null) ActiveFeatures=a,b Gres=(null) NodeAddr=127.0.0.1 NodeHostName=vm Port=15665 Version=22.05.8 OS=Linux 6.18.44 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=1000 AllocMem=0 FreeMem=21443 Sockets=2 Boards=1 State=MIXED ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=main  BootTime=1795235832
NodeName=n59-2 CPUEfctv=2 CPUTot=2 ActiveFeatures=(null) OS=Linux  RealMemory=1000 State=ALLOCATED Partitions=main
NodeName=n59-3 CPUEfctv=2 CPUTot=2 ActiveFeatures=(null) OS=Linux  RealMemory=1000 State=IDLE+DRAIN Partitions=main  Reason=a b State=IDLE [root@1]
";

const PARTITIONS: &str = "\
PartitionName=main AllowGroups=ALL Default=YES QoS=N/A DefaultTime=NONE MaxTime=UNLIMITED MinNodes=0 Nodes=n59-[1-3] OverSubscribe=FORCE:20 PreemptMode=OFF State=UP TotalCPUs=6
PartitionName=p2 Default=NO MaxTime=1-02:30:00 Nodes=(null) OverSubscribe=NO State=DOWN
";

#[test]
fn squeue_s_json_becomes_records() {
    let jobs = from_json(&squeue()).expect("jobs");
    let job = |at: usize| &jobs[at].job;
    assert_eq!(
        (job(0).name(), job(0).state),
        ("1".to_string(), State::Running)
    );
    assert_eq!(
        (job(0).nodes.join(" "), job(0).started),
        ("n59-1".to_string(), 1795271100.0)
    );
    assert_eq!((job(1).name(), job(1).id), ("6_1".to_string(), 7));
    let waiting = job(2).array.as_ref().expect("an array");
    assert_eq!((waiting.array, &waiting.tasks[..]), (6, &[2, 3, 4, 5][..]));
    assert!(job(2).held && !job(0).held);
    assert!(job(3).state == State::Ended && job(3).cut_short);
    assert_eq!(jobs[0].user, "ann");
    assert!(from_json("{}").is_err() && from_json("squeue: error").is_err());
    // What 22.05.8 printed with its controller down, and ended well.
    let down = r#"{"errors": [{"description": "Failed while looking for jobs", "error_number": -1, "error": "Unspecified error",
                 "source": "slurm_load_jobs"}], "jobs": []}"#;
    let error = from_json(down).expect_err("no answer");
    assert!(
        error.contains("looking for jobs") && error.contains("slurmctld may be down"),
        "{error}"
    );
}

#[test]
fn numbers_and_states_of_later_versions_are_read() {
    let job = serde_json::json!({"jobs": [{
        "job_id": 9, "array_job_id": {"set": true, "infinite": false, "number": 8}, "array_task_id": {"set": true, "infinite": false, "number": 3},
        "array_task_string": "", "job_state": ["RUNNING", "COMPLETING"], "nodes": "n[1-2]", "priority": {"set": true, "infinite": false, "number": 0},
        "start_time": {"set": true, "infinite": false, "number": 5}, "end_time": {"set": false, "infinite": false, "number": 0}, "user_name": "ann", "user_id": 7,
        "admin_comment": "libra:x"}, {
        "job_id": 10, "array_job_id": {"set": true, "infinite": false, "number": 0}, "array_task_id": {"set": false, "infinite": false, "number": 0},
        "job_state": ["PENDING"]}]});
    let jobs = from_json(&job.to_string()).expect("jobs");
    let first = &jobs[0].job;
    assert_eq!(
        (first.name().as_str(), first.started, first.ended),
        ("8_3", 5.0, 0.0)
    );
    assert_eq!(
        (first.state, first.held, first.nodes.len()),
        (State::Running, true, 2)
    );
    assert_eq!(
        (jobs[1].job.array.clone(), jobs[1].job.state),
        (None, State::Pending)
    );
}

#[test]
fn scontrol_s_lines_say_the_same() {
    let array = COMMITMENT.replace("token=1:", "token=11:");
    let line = format!(
        "JobId=7 ArrayJobId=6 ArrayTaskId=1 ArrayTaskThrottle=1 JobName=a b UserId=ben(1010) GroupId=ben(1010) Priority=4294901757 \
         JobState=RUNNING Reason=None StartTime=1795271100 EndTime=1826807830 Partition=main AllocNode:Sid=localhost:22657 ReqNodeList=n59-2 \
         NodeList=n59-2 BatchHost=n59-2 NumNodes=1 ReqB:S:C:T=0:0:*:* TRES=cpu=1,mem=1000M,node=1 Command=(null) WorkDir=/home/ben \
         AdminComment=libra:{array}:count=5:at=n59-2*5*0.3:tasks=1-5  StdErr=/home/ben/slurm-6_1.out Power= \n\
         JobId=8 JobName=x UserId=ann(1009) Priority=0 JobState=PENDING StartTime=Unknown EndTime=Unknown NodeList=(null) WorkDir=/home/ann \
         Comment=x AdminComment=libra:y  StdErr=/x Power= \n"
    );
    let jobs = from_text(&line).expect("jobs");
    assert_eq!(jobs[0], from_json(&squeue()).expect("jobs")[1]);
    // A user's comment that imitates the administrators' is none of theirs.
    assert_eq!(&*jobs[1].job.admin_comment, "");
    assert_eq!((jobs[1].job.held, jobs[1].job.started), (true, 0.0));
}

#[test]
fn nodes_and_partitions_are_read() {
    let found = nodes(NODES);
    let shown: Vec<(&str, bool, &str)> = (found.iter())
        .map(|(node, state)| (node.name.as_str(), node.up, state.as_str()))
        .collect();
    assert_eq!(
        shown,
        [
            ("n59-1", true, "mixed"),
            ("n59-2", true, "allocated"),
            ("n59-3", false, "idle+drain")
        ]
    );
    assert_eq!((found[0].0.processors, found[0].0.memory), (2, 1000));
    assert_eq!(found[0].0.features, ["a", "b"]);
    for (state, up) in [
        ("DOWN*", false),
        ("IDLE*", false),
        ("MIXED+PLANNED", true),
        ("IDLE+MAINT", false),
    ] {
        assert_eq!(is_up(state), up, "{state}");
    }
    let found = partitions(PARTITIONS);
    assert_eq!((found[0].shared, found[0].jobs_per_processor), (true, 20));
    assert_eq!(
        (found[0].longest, found[0].default, found[0].up),
        (None, true, true)
    );
    assert_eq!(found[0].nodes, ["n59-1", "n59-2", "n59-3"]);
    assert_eq!((found[1].shared, found[1].longest), (false, Some(1590)));
    assert_eq!(
        (force("force"), force("YES:4"), force("FORCE:x")),
        (Some(4), None, None)
    );
}

#[test]
fn what_slurm_says_becomes_two_tables() {
    let jobs = from_json(&squeue()).expect("jobs");
    let states = nodes(NODES);
    let records = Records {
        taken: 1795271200.0,
        nodes: states.iter().map(|(node, _)| node.clone()).collect(),
        partitions: partitions(PARTITIONS),
        jobs: jobs.iter().map(|owned| owned.job.clone()).collect(),
        ..Records::default()
    };
    let config = Config::from_toml("[admission]\nestimate-margin = '0%'").expect("a configuration");
    let shown = of_records(&config, &records, &owners(&jobs), &states).expect("a report");
    // Job 1: half a processor since 100 s, so 50 s of 600 s; 1000 s are left until 1795272200, of which 550 s are needed:
    // 450 s of slack, and 55 % from now on.
    let text = shown.text(&Room::unlimited(Paint::Plain));
    assert!(
        text.contains("1    ann   n59-1  55 %   50 s of 10m00s  16m40s  7m30s  on track"),
        "{text}"
    );
    // A twentieth is kept for the system.
    assert!(text.contains("n59-3  idle+drain  0 of 1.9"), "{text}");
    let coloured = shown.text(&Room::unlimited(Paint::Colours));
    assert!(
        coloured.contains("7m30s  \u{1b}[32mon track\u{1b}[0m\n"),
        "{coloured}"
    );
    let mut status = Status::default();
    shown.add_to(&mut status);
    assert_eq!(status.problems, Vec::<String>::new());
    let names: Vec<&str> = status.jobs.iter().map(|job| job.id.as_str()).collect();
    assert_eq!(names.len(), 6, "{names:?}");
    assert!(
        names.contains(&"6_1") && names.contains(&"6_5"),
        "{names:?}"
    );
    let none = Config::from_toml("[slurm]\npartitions = ['p2']").expect("a configuration");
    let shown = of_records(&none, &records, &owners(&jobs), &states).expect("a report");
    // What is committed on nodes that are none of Libra's now still counts.
    let text = shown.text(&Room::unlimited(Paint::Plain));
    assert!(text.starts_with("NODE"), "{text}");
}
