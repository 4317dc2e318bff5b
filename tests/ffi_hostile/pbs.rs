//! `libra_pbs_event` with events that no hook would send.

use super::{
    CStr, CString, Random, cases, check_code, libra_pbs_event, libra_string_free, ptr, random,
};

/// An event with everything that hooks say, each part sound or odd.
fn pbs_event(random: &mut Random, now: f64) -> serde_json::Value {
    use serde_json::{Value, json};
    const KINDS: [&str; 12] = [
        "queuejob",
        "queuejob",
        "queuejob",
        "postqueuejob",
        "runjob",
        "jobobit",
        "modifyjob",
        "movejob",
        "modifyvnode",
        "gone",
        "nodes",
        "records",
    ];
    let odd = |sound: Value, random: &mut Random| match random.below(40) {
        0 => Value::Null,
        1 => json!(random.text().to_string_lossy()),
        2 => json!(random.number()),
        3 => json!([sound]),
        4 => json!({"a": sound}),
        _ => sound,
    };
    let id = format!("{}.s", random.below(30));
    let array = random.one_in(10).then_some("1-3");
    let id = array.map_or(id, |_| "7[].s".to_string());
    let places = [
        "n1*1*0.5",
        "n2*2*0.25",
        "n9*1*1",
        "n1*1*0.1+n2*1*0.1",
        "",
        "n1*1*nan",
        "n1*4294967295*1",
    ];
    let line = format!(
        "v=1:token={}:submitted={}:estimate={}:deadline={}:budget=15:type=hard:penalty=0:price=10.5:chunks={}:processors={}:\
         memory=0:scatter=0:count={}:at={}",
        random.below(50),
        now - 5.0,
        random.between(0.1, 50.0),
        random.between(1.0, 100.0),
        random.count(2),
        random.count(2),
        random.count(2),
        places[random.below(7) as usize],
    );
    let selects = [
        "1:ncpus=1",
        "2:ncpus=2:mem=1gb",
        "1:ncpus=1+1:ncpus=1",
        "1:host=n1",
        "4294967295:ncpus=65536",
        "0:ncpus=1",
        "a:b:c=:=d",
    ];
    let job = json!({
        "id": odd(json!(id), random),
        "commitment": odd(json!(line), random),
        "terms": {
            "estimate": odd(json!(random.between(0.1, 20.0).to_string()), random),
            "deadline": odd(json!(random.between(1.0, 40.0).to_string()), random),
            "budget": odd(json!("unlimited"), random),
        },
        "select": odd(json!(selects[random.below(7) as usize]), random),
        "place": odd(json!(["free", "pack", "scatter", "excl"][random.below(4) as usize]), random),
        "walltime": odd(json!(60), random),
        "array": odd(json!(array), random),
        "remaining": odd(json!("2-3"), random),
        "exec_vnode": odd(json!(["(n1:libra_share=0.5)", "n2", "((", "(n1)+(n2)"][random.below(4) as usize]), random),
        "state": odd(json!(["Q", "R", "F", "B"][random.below(4) as usize]), random),
        "substate": odd(json!([42, 53, 63][random.below(3) as usize]), random),
        "progress": odd(json!("'{\"n1\": \"1.5@1000\"}'"), random),
        "keys": odd(json!(["deadline"]), random),
        "destination": odd(json!("q@elsewhere"), random),
    });
    let node = json!({
        "name": odd(json!(format!("n{}", random.below(4))), random),
        "share": odd(json!("2.0"), random),
        "mem": odd(json!("8gb"), random),
        "up": odd(json!(true), random),
        "resources": odd(json!({"host": "n1"}), random),
    });
    json!({
        "event": odd(json!(KINDS[random.below(12) as usize]), random),
        "now": odd(json!(now), random),
        "config": "/nonexistent/libra.toml",
        "records": "/nonexistent/records.json",
        "job": odd(job.clone(), random),
        "jobs": odd(json!([job, id]), random),
        "nodes": odd(json!([node]), random),
        "node": odd(json!("n1"), random),
        "up": odd(json!(random.one_in(2)), random),
    })
}

#[test]
fn any_event_of_a_hook_is_answered_or_an_error() {
    let mut random = random();
    let mut accepted = 0u32;
    for case in 0..cases() {
        let event = pbs_event(&mut random, 1000.0 + case as f64 * 0.1);
        let mut text = event.to_string();
        if random.one_in(50) {
            text = text.chars().take(text.len() / 2).collect();
        }
        let event = CString::new(text).expect("JSON escapes a NUL");
        let mut answer = ptr::null_mut();
        // SAFETY: a string, and room for the answer.
        let code = unsafe { libra_pbs_event(event.as_ptr(), &mut answer) };
        check_code(code, case);
        if code < 0 {
            assert!(answer.is_null(), "case {case}");
            continue;
        }
        // SAFETY: the library's string; given back once.
        let text = unsafe { CStr::from_ptr(answer) }
            .to_str()
            .expect("UTF-8")
            .to_string();
        // SAFETY: the same.
        unsafe { libra_string_free(answer) };
        let answer: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        accepted += u32::from(answer["resources"]["libra_terms"].is_string());
    }
    assert!(
        accepted > 10,
        "{accepted} jobs have a commitment: too few for this to say much"
    );
}
