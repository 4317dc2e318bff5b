//! The ids of a job array's subjobs.

use super::BadEvent;
use libra_core::commitment::Commitment;
use libra_units::indices;

/// The ids that have a commitment under one job: its own, or those of the subjobs.
///
/// # Errors
/// When the id or the indices of an array cannot be read.
pub(super) fn ids(
    id: &str,
    commitment: &Commitment,
    array: Option<&str>,
) -> Result<Vec<String>, BadEvent> {
    let ids = ids_among(id, array)?;
    if id.contains("[]") && ids.len() != commitment.count as usize {
        return Err(BadEvent(format!(
            "array {id} has {} subjobs, {} were committed",
            ids.len(),
            commitment.count
        )));
    }
    Ok(ids)
}

/// The id of a job, or those of an array's subjobs with these indices, such as `1-5,7`.
///
/// # Errors
/// When the indices of an array cannot be read.
pub(super) fn ids_among(id: &str, indices: Option<&str>) -> Result<Vec<String>, BadEvent> {
    let Some((before, after)) = id.split_once("[]") else {
        return Ok(vec![id.to_string()]);
    };
    let indices = indices::parse(indices.unwrap_or_default()).map_err(BadEvent)?;
    let name = |index| format!("{before}[{index}]{after}");
    Ok(indices.into_iter().map(name).collect())
}

/// Returns true if it is the id of a subjob, such as `12[3].server`.
pub(super) fn is_subjob(id: &str) -> bool {
    id.contains('[') && !id.contains("[]")
}

/// Which subjob of its array it is, counted from 0; 0 for a job that is of none.
pub(super) fn subjob_of(
    id: &str,
    commitment: &Commitment,
    array: Option<&str>,
) -> Result<usize, BadEvent> {
    // One that has a commitment for itself, after a hold, is the only one of its plan.
    let (Some((_, rest)), 2..) = (id.split_once('['), commitment.count) else {
        return Ok(0);
    };
    let index = rest
        .split(']')
        .next()
        .and_then(|index| index.parse::<u32>().ok());
    let indices = match array {
        Some(array) => indices::parse(array).map_err(BadEvent)?,
        // PBS does not always say: then the order in the plan is of no matter, it is one share for all.
        None => return Ok((index.unwrap_or(0) as usize) % commitment.count.max(1) as usize),
    };
    Ok((indices.iter().position(|known| Some(*known) == index)).unwrap_or(0))
}
