//! Recorded responses of kube-apiserver: the same requests are sent again, and the responses compared.
//!
//! A file has one case per line, as `reference/README.md` describes it, and may be compressed with gzip. `case` is that
//! format, `body` builds the requests, `run` sends them and compares (`own_namespaces`: lists of all namespaces), `floors`
//! holds what must pass. Start reading at [`replay`].

mod body;
mod case;
mod floors;
mod own_namespaces;
mod run;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context, Result};
use flate2::read::GzDecoder;

use crate::compare::Difference;
use crate::wire::Endpoint;

pub use case::{BodyFrom, Case, Expect, Step};
pub use floors::Floors;
pub use run::Runner;

/// The result of one case.
#[derive(Debug)]
pub struct Outcome {
    pub id: String,
    pub area: String,
    /// With the step's number, method and path. Empty if the case passed.
    pub differences: Vec<(String, Difference)>,
}

/// How many cases of an area passed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    pub passed: usize,
    pub total: usize,
}

/// The cases of a file whose id has this prefix.
pub fn read(path: &Path, prefix: &str) -> Result<Vec<Case>> {
    let text = text(path).with_context(|| format!("read {}", path.display()))?;
    let mut cases = Vec::new();
    for (number, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let case: Case =
            serde_json::from_str(line).with_context(|| format!("{} line {}", path.display(), number + 1))?;
        if case.id.starts_with(prefix) {
            cases.push(case);
        }
    }
    Ok(cases)
}

/// Content of a file, decompressed if its name ends in `.gz`.
fn text(path: &Path) -> std::io::Result<String> {
    if path.extension().is_none_or(|extension| extension != "gz") {
        return fs::read_to_string(path);
    }
    let mut text = String::new();
    GzDecoder::new(fs::File::open(path)?).read_to_string(&mut text)?;
    Ok(text)
}

/// Sends all cases to one server, in order.
pub fn replay(endpoint: &Endpoint, cases: &[Case], ignored: &[String]) -> Vec<Outcome> {
    let mut runner = Runner::new(endpoint.clone());
    cases.iter().map(|case| runner.outcome(case, ignored)).collect()
}

/// Passed and total by area.
pub fn counts(outcomes: &[Outcome]) -> BTreeMap<String, Count> {
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    for outcome in outcomes {
        let count = counts.entry(outcome.area.clone()).or_default();
        count.total += 1;
        count.passed += usize::from(outcome.differences.is_empty());
    }
    counts
}

// === impl Count ===

impl Count {
    pub fn percent(self) -> f64 {
        100.0 * self.passed as f64 / self.total.max(1) as f64
    }
}
