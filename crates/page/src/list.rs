//! The list of jobs as somebody wants to see it: searched, filtered, grouped, sorted, a page of it. Pure.
//!
//! What is wanted is in the address, so a list can be kept as a bookmark, and works without scripts.

use crate::address::InAddress;
use crate::system::job::{JobSummary, Outcome, Tone};
use std::collections::BTreeMap;

/// Rows on a page.
pub const ROWS: usize = 50;

/// So many jobs of one array, or of one name, stand in one row.
pub const GROUP_FROM: usize = 5;

/// The longest search that is read, in characters.
const LONGEST_SEARCH: usize = 200;

/// Which jobs are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Filter {
    /// All of them.
    #[default]
    All,
    /// Those that have not ended.
    Live,
    /// Those that have not begun.
    Waiting,
    /// Those that have begun and not ended.
    Running,
    /// Those that have not ended and may be late, or are.
    Danger,
    /// Those that have ended.
    Ended,
    /// Those that did what they were to do.
    Finished,
    /// Those that did not, or were stopped.
    Failed,
    /// Those that somebody cancelled.
    Cancelled,
    /// Those that are late, or were.
    Late,
}

/// All filters, with their names in addresses and on the page.
pub const FILTERS: [(Filter, &str, &str); 10] = [
    (Filter::All, "", "all"),
    (Filter::Live, "live", "not ended"),
    (Filter::Waiting, "waiting", "waiting"),
    (Filter::Running, "running", "running"),
    (Filter::Danger, "danger", "in danger"),
    (Filter::Ended, "ended", "ended"),
    (Filter::Finished, "finished", "finished"),
    (Filter::Failed, "failed", "failed"),
    (Filter::Cancelled, "cancelled", "cancelled"),
    (Filter::Late, "late", "late"),
];

/// In which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    /// Those that have not ended first, the latest of each kind first.
    #[default]
    Newest,
    /// By the time of submission.
    Oldest,
    /// By name.
    Name,
    /// What needs somebody first: late, in danger, running, waiting, failed, ended.
    State,
    /// The least time until the deadline first; what has ended behind all others.
    Left,
    /// The dearest first.
    Price,
}

/// All orders, with their names in addresses and on the page.
pub const SORTS: [(Sort, &str, &str); 6] = [
    (Sort::Newest, "", "newest first"),
    (Sort::Oldest, "oldest", "oldest first"),
    (Sort::Name, "name", "by name"),
    (Sort::State, "state", "by state"),
    (Sort::Left, "left", "by time left"),
    (Sort::Price, "price", "by price"),
];

/// What of the list is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    /// Words that all have to be in the name, id, node or state of a job.
    pub search: String,
    /// Which of them.
    pub filter: Filter,
    /// In which order.
    pub sort: Sort,
    /// Only the jobs of this group, each by itself.
    pub group: String,
    /// No groups: a row for each job.
    pub each: bool,
    /// From 0.
    pub page: usize,
    /// The page does not reload itself where there are no scripts.
    pub still: bool,
}

impl Query {
    /// From the names and values of an address. What is not understood is as if it were not there.
    pub fn of<'a>(get: impl Fn(&str) -> &'a str) -> Query {
        let filter = get("state");
        let sort = get("sort");
        let page: usize = get("page").parse().unwrap_or(1);
        Query {
            search: get("q").trim().chars().take(LONGEST_SEARCH).collect(),
            filter: FILTERS
                .iter()
                .find(|(_, name, _)| *name == filter)
                .map_or(Filter::All, |found| found.0),
            sort: SORTS
                .iter()
                .find(|(_, name, _)| *name == sort)
                .map_or(Sort::Newest, |found| found.0),
            group: get("group").to_string(),
            each: get("each") == "yes",
            page: page.clamp(1, 1_000_000) - 1,
            still: get("still") == "yes",
        }
    }

    /// Names and values of what is not as always.
    pub fn pairs(&self) -> Vec<(&'static str, String)> {
        let filter = FILTERS.iter().find(|known| known.0 == self.filter);
        let sort = SORTS.iter().find(|known| known.0 == self.sort);
        let yes = |is: bool| if is { "yes" } else { "" }.to_string();
        let page = match self.page {
            0 => String::new(),
            page => (page + 1).to_string(),
        };
        let pairs = [
            ("q", self.search.clone()),
            ("state", filter.map_or("", |known| known.1).to_string()),
            ("sort", sort.map_or("", |known| known.1).to_string()),
            ("group", self.group.clone()),
            ("each", yes(self.each)),
            ("page", page),
            ("still", yes(self.still)),
        ];
        let given = pairs.into_iter().filter(|(_, value)| !value.is_empty());
        given.collect()
    }

    /// Behind the name of a page: `jobs?q=x&sort=name`.
    pub fn address(&self, page: &str) -> String {
        let pairs = self.pairs();
        let pairs = pairs
            .iter()
            .map(|(name, value)| format!("{name}={}", InAddress(value)));
        let pairs = pairs.collect::<Vec<_>>().join("&");
        match pairs.as_str() {
            "" => page.to_string(),
            pairs => format!("{page}?{pairs}"),
        }
    }

    /// Returns true if a job is one of those that are wanted, its group left aside.
    fn has(&self, job: &JobSummary) -> bool {
        let is = match self.filter {
            Filter::All => true,
            Filter::Live => job.live,
            Filter::Waiting => job.live && job.waits(),
            Filter::Running => job.live && !job.waits(),
            Filter::Danger => job.in_danger(),
            Filter::Ended => !job.live,
            Filter::Finished => job.outcome == Some(Outcome::Finished),
            Filter::Failed => matches!(job.outcome, Some(Outcome::Failed | Outcome::Stopped)),
            Filter::Cancelled => job.outcome == Some(Outcome::Cancelled),
            Filter::Late => job.is_late(),
        };
        if !is || self.search.is_empty() {
            return is;
        }
        let places = [&job.name, &job.id, &job.node].map(|text| text.to_lowercase());
        let states = [job.state_word(), &job.ending].map(str::to_lowercase);
        let mut words = self.search.split_whitespace().map(str::to_lowercase);
        words.all(|word| {
            places.iter().any(|text| text.contains(&word))
                || states.iter().any(|text| text.contains(&word))
        })
    }
}

/// Jobs that stand in one row: those of an array, or of one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Group<'a> {
    /// What it is called in addresses.
    pub key: String,
    /// The name of its jobs.
    pub name: &'a str,
    /// The jobs, as they were listed.
    pub jobs: Vec<&'a JobSummary>,
}

/// How many jobs of a list are in which state. A job that is in danger is also among those that run or wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Not begun.
    pub waiting: usize,
    /// Begun and not ended.
    pub running: usize,
    /// Not ended, and may be late or are.
    pub danger: usize,
    /// Ended, by how.
    pub finished: usize,
    /// Failed or stopped.
    pub failed: usize,
    /// Cancelled.
    pub cancelled: usize,
    /// Ended, and nobody knows how.
    pub unknown: usize,
    /// Ended, and late.
    pub late: usize,
}

impl Counts {
    /// Of these jobs.
    pub fn of<'a>(jobs: impl IntoIterator<Item = &'a JobSummary>) -> Counts {
        let mut counts = Counts::default();
        for job in jobs {
            let place = match (job.live, job.outcome) {
                (true, _) if job.waits() => &mut counts.waiting,
                (true, _) => &mut counts.running,
                (_, Some(Outcome::Finished)) => &mut counts.finished,
                (_, Some(Outcome::Failed | Outcome::Stopped)) => &mut counts.failed,
                (_, Some(Outcome::Cancelled)) => &mut counts.cancelled,
                _ => &mut counts.unknown,
            };
            *place += 1;
            counts.danger += usize::from(job.in_danger());
            counts.late += usize::from(!job.live && job.is_late());
        }
        counts
    }

    /// Not ended.
    pub fn live(&self) -> usize {
        self.waiting + self.running
    }

    /// All of them.
    pub fn all(&self) -> usize {
        self.live() + self.finished + self.failed + self.cancelled + self.unknown
    }
}

/// A row of the list.
#[derive(Debug, Clone, PartialEq)]
pub enum Row<'a> {
    /// A job.
    One(&'a JobSummary),
    /// Several.
    Several(Group<'a>),
}

impl<'a> Row<'a> {
    /// The jobs in it.
    pub fn jobs(&self) -> &[&'a JobSummary] {
        match self {
            Row::One(job) => std::slice::from_ref(job),
            Row::Several(group) => &group.jobs,
        }
    }

    fn is_live(&self) -> bool {
        self.jobs().iter().any(|job| job.live)
    }

    fn submitted(&self) -> f64 {
        let times = self.jobs().iter().filter_map(|job| job.submitted);
        times.fold(0.0, f64::max)
    }

    fn name(&self) -> &str {
        self.jobs().first().map_or("", |job| &job.name)
    }

    fn left(&self) -> f64 {
        let left = |job: &&JobSummary| {
            let seconds = job.deadline? - job.elapsed?;
            job.live.then_some(seconds)
        };
        let times = self.jobs().iter().filter_map(left);
        times.fold(f64::INFINITY, f64::min)
    }

    /// The sum of what its jobs cost, in credits; None if none of them has a price.
    pub fn price(&self) -> Option<f64> {
        let prices = self.jobs().iter().filter_map(|job| job.price);
        prices.reduce(|a, b| a + b)
    }

    /// Of the job that needs somebody most.
    fn rank(&self) -> u8 {
        let rank = |job: &&JobSummary| match (job.live, job.tone(), job.outcome) {
            (true, Tone::Bad, _) => 0,
            (true, Tone::Warn, _) => 1,
            (true, _, _) if !job.waits() => 2,
            (true, _, _) => 3,
            (_, Tone::Bad, _) => 4,
            (_, _, Some(Outcome::Cancelled)) => 5,
            _ => 6,
        };
        self.jobs().iter().map(rank).min().unwrap_or(6)
    }
}

/// A page of the list.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing<'a> {
    /// The rows of this page.
    pub rows: Vec<Row<'a>>,
    /// Which page it is, from 0: the last one, where the one that was wanted is not there any more.
    pub page: usize,
    /// How many there are, at least one.
    pub pages: usize,
    /// How many rows there are on all pages.
    pub all_rows: usize,
    /// All jobs that are wanted, on whatever page.
    pub counts: Counts,
    /// All jobs of the user.
    pub all_jobs: usize,
    /// There are groups among the rows of all pages.
    pub has_groups: bool,
}

/// What of these jobs is shown.
pub fn listing<'a>(jobs: &'a [JobSummary], query: &Query) -> Listing<'a> {
    let wanted = wanted(jobs, query);
    let counts = Counts::of(wanted.iter().copied());
    let mut rows = match query.each || !query.group.is_empty() {
        true => wanted.into_iter().map(Row::One).collect(),
        false => grouped(wanted),
    };
    let all_rows = rows.len();
    let has_groups = rows.iter().any(|row| matches!(row, Row::Several(_)));
    // Sorting keeps the order of what is alike, which is that of the list: the latest first.
    match query.sort {
        Sort::Newest => rows.sort_by(|a, b| {
            let live = b.is_live().cmp(&a.is_live());
            live.then(b.submitted().total_cmp(&a.submitted()))
        }),
        Sort::Oldest => rows.sort_by(|a, b| a.submitted().total_cmp(&b.submitted())),
        Sort::Name => rows.sort_by_cached_key(|row| row.name().to_lowercase()),
        Sort::State => rows.sort_by_key(Row::rank),
        Sort::Left => rows.sort_by(|a, b| a.left().total_cmp(&b.left())),
        Sort::Price => rows.sort_by(|a, b| {
            let price = |row: &Row<'_>| row.price().unwrap_or(-1.0);
            price(b).total_cmp(&price(a))
        }),
    }
    let pages = all_rows.div_ceil(ROWS).max(1);
    let page = query.page.min(pages - 1);
    let rows = rows.into_iter().skip(page * ROWS).take(ROWS).collect();
    Listing {
        rows,
        page,
        pages,
        all_rows,
        counts,
        all_jobs: jobs.len(),
        has_groups,
    }
}

/// The jobs that are wanted, on whatever page, in the order of the list.
pub fn wanted<'a>(jobs: &'a [JobSummary], query: &Query) -> Vec<&'a JobSummary> {
    let is = |job: &&JobSummary| {
        (query.group.is_empty() || group_of(job) == query.group) && query.has(job)
    };
    jobs.iter().filter(is).collect()
}

/// What the group of a job is called, whether or not there are enough of them: an array by its id, others by their name.
pub fn group_of(job: &JobSummary) -> String {
    let digits = job.id.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = job.id.split_at(digits);
    match rest.starts_with(['_', '[']) && digits > 0 {
        true => format!("array.{number}"),
        false => format!("name.{}", job.name),
    }
}

fn grouped(jobs: Vec<&JobSummary>) -> Vec<Row<'_>> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let keys: Vec<String> = jobs.iter().map(|job| group_of(job)).collect();
    for key in &keys {
        *counts.entry(key.clone()).or_default() += 1;
    }
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for (job, key) in jobs.into_iter().zip(keys) {
        if counts.get(&key).is_none_or(|count| *count < GROUP_FROM) || key == "name." {
            rows.push(Row::One(job));
            continue;
        }
        // A group stands where the first of its jobs does.
        let at = places.get(&key).copied();
        match at.and_then(|at| rows.get_mut(at)) {
            Some(Row::Several(group)) => group.jobs.push(job),
            _ => {
                places.insert(key.clone(), rows.len());
                rows.push(Row::Several(Group {
                    key,
                    name: &job.name,
                    jobs: vec![job],
                }));
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: &str, name: &str, state: &str, submitted: f64) -> JobSummary {
        JobSummary {
            key: id.to_string(),
            id: id.to_string(),
            name: name.to_string(),
            state: state.to_string(),
            live: true,
            submitted: Some(submitted),
            ..JobSummary::default()
        }
    }

    fn ended(id: &str, name: &str, outcome: Outcome, in_time: bool) -> JobSummary {
        JobSummary {
            live: false,
            outcome: Some(outcome),
            in_time: Some(in_time),
            ..job(id, name, "", 1.0)
        }
    }

    fn ids(jobs: &[JobSummary], query: &Query) -> Vec<String> {
        let listing = listing(jobs, query);
        let first = |row: &Row<'_>| format!("{}x{}", row.jobs()[0].id, row.jobs().len());
        listing.rows.iter().map(first).collect()
    }

    #[test]
    fn an_address_says_it_all_and_nothing_else() {
        let pairs = [
            ("q", " a&b "),
            ("state", "danger"),
            ("sort", "price"),
            ("group", "name.x/y"),
            ("each", "yes"),
            ("page", "3"),
        ];
        let get = |name: &str| {
            let found = pairs.iter().find(|pair| pair.0 == name);
            found.map_or("", |pair| pair.1)
        };
        let query = Query::of(get);
        assert_eq!(
            query.address("jobs"),
            "jobs?q=a%26b&state=danger&sort=price&group=name.x%2Fy&each=yes&page=3"
        );
        let odd = Query::of(|_| "<nonsense>");
        assert_eq!(
            (odd.filter, odd.sort, odd.page),
            (Filter::All, Sort::Newest, 0)
        );
        assert_eq!(Query::default().address("jobs"), "jobs");
    }

    #[test]
    fn jobs_are_found_by_words_and_by_state() {
        let jobs = [
            job("1", "alpha", "on track", 5.0),
            job("2", "beta", "waits, at risk", 4.0),
            job("3", "Alpha", "late", 3.0),
            ended("4", "alpha", Outcome::Finished, true),
            ended("5", "alpha", Outcome::Failed, false),
            ended("6", "beta", Outcome::Cancelled, true),
        ];
        let with = |search: &str, filter| {
            let search = search.to_string();
            ids(
                &jobs,
                &Query {
                    search,
                    filter,
                    ..Query::default()
                },
            )
        };
        assert_eq!(with("ALPHA track", Filter::All), ["1x1"]);
        assert_eq!(with("beta", Filter::All), ["2x1", "6x1"]);
        assert_eq!(with("", Filter::Live), ["1x1", "2x1", "3x1"]);
        assert_eq!(with("", Filter::Waiting), ["2x1"]);
        assert_eq!(with("", Filter::Running), ["1x1", "3x1"]);
        assert_eq!(with("", Filter::Danger), ["2x1", "3x1"]);
        assert_eq!(with("", Filter::Finished), ["4x1"]);
        assert_eq!(with("", Filter::Failed), ["5x1"]);
        assert_eq!(with("", Filter::Cancelled), ["6x1"]);
        assert_eq!(with("", Filter::Late), ["3x1", "5x1"]);
        assert_eq!(with("cancelled", Filter::All), ["6x1"]);
    }

    #[test]
    fn arrays_and_sweeps_stand_in_one_row_each() {
        let mut jobs: Vec<JobSummary> = (0..6)
            .map(|task| job(&format!("7_{task}"), "a", "on track", 10.0))
            .collect();
        jobs.extend((0..GROUP_FROM).map(|n| job(&format!("{}", 20 + n), "sweep", "waits", 20.0)));
        jobs.extend((0..GROUP_FROM - 1).map(|n| job(&format!("{}", 30 + n), "few", "waits", 5.0)));
        jobs.push(ended("9[1].server", "a", Outcome::Finished, true));
        assert_eq!(
            ids(&jobs, &Query::default()),
            [
                "20x5",
                "7_0x6",
                "30x1",
                "31x1",
                "32x1",
                "33x1",
                "9[1].serverx1"
            ]
        );
        let each = Query {
            each: true,
            ..Query::default()
        };
        assert_eq!(listing(&jobs, &each).rows.len(), jobs.len());
        let group = Query {
            group: "array.7".to_string(),
            ..Query::default()
        };
        assert_eq!(ids(&jobs, &group).len(), 6, "each of them");
    }

    #[test]
    fn a_page_is_never_beyond_the_last() {
        let jobs: Vec<JobSummary> = (0..120)
            .map(|n| job(&n.to_string(), &format!("n{n}"), "on track", f64::from(n)))
            .collect();
        let query = Query {
            page: 7,
            ..Query::default()
        };
        let last = listing(&jobs, &query);
        assert_eq!((last.page, last.pages, last.rows.len()), (2, 3, 20));
        assert_eq!(last.rows[19].jobs()[0].id, "0", "the oldest is the last");
        assert_eq!(last.counts.live(), 120);
        assert_eq!(listing(&[], &query).pages, 1);
    }

    #[test]
    fn orders() {
        let with = |id: &str, left: f64, price: f64| JobSummary {
            deadline: Some(left),
            elapsed: Some(0.0),
            price: Some(price),
            ..job(id, id, "on track", left)
        };
        let mut jobs = vec![
            with("b", 30.0, 1.0),
            with("c", 20.0, 3.0),
            with("a", 10.0, 2.0),
        ];
        jobs.push(ended("d", "d", Outcome::Failed, true));
        let sorted = |sort| {
            let query = Query {
                sort,
                ..Query::default()
            };
            ids(&jobs, &query).join(" ").replace("x1", "")
        };
        assert_eq!(sorted(Sort::Newest), "b c a d");
        assert_eq!(sorted(Sort::Oldest), "d a c b");
        assert_eq!(sorted(Sort::Name), "a b c d");
        assert_eq!(sorted(Sort::Left), "a c b d");
        assert_eq!(sorted(Sort::Price), "c a b d");
        assert_eq!(sorted(Sort::State), "b c a d");
    }
}
