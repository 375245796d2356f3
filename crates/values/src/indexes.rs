//! Sets of completion indexes as the status of a Job has them: `1,3-5,7`.

use std::collections::BTreeSet;
use std::fmt;

/// A set of completion indexes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Indexes(BTreeSet<u32>);

impl Indexes {
    /// Parses the indexes below `completions` from a status. Invalid intervals are skipped.
    pub fn parse(text: &str, completions: u32) -> Self {
        let mut indexes = BTreeSet::new();
        for part in intervals(text) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
                indexes.extend((first..=last).take_while(|index| *index < completions));
            }
        }
        Self(indexes)
    }

    /// Adds an index.
    pub fn insert(&mut self, index: u32) {
        self.0.insert(index);
    }

    /// Whether the index is in the set.
    pub fn has(&self, index: u32) -> bool {
        self.0.contains(&index)
    }

    /// The number of indexes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many are in both.
    pub fn shared_with(&self, other: &Self) -> usize {
        self.0.intersection(&other.0).count()
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for index in &self.0 {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == *index => *last = *index,
                _ => runs.push((*index, *index)),
            }
        }
        for (i, (first, last)) in runs.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

// === validation ===

/// The number of indexes in a set, all below `completions`; otherwise the error, in the words of the Job's validation.
pub fn count(text: &str, completions: i64) -> Result<i64, String> {
    let mut total = 0;
    let mut last = None;
    for part in intervals(text) {
        let (first, end) = interval(part, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(out_of_order(last, first));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// The first index that is in both sets. Invalid intervals are skipped.
pub fn overlap(left: &str, right: &str, completions: i64) -> Option<i64> {
    let read = |text: &str| -> Vec<(i64, i64)> {
        intervals(text)
            .filter_map(|part| interval(part, completions).ok())
            .collect()
    };
    let (left, right) = (read(left), read(right));
    let (mut at, mut beside) = (0, 0);
    while let (Some(one), Some(other)) = (left.get(at), right.get(beside)) {
        if one.0 <= other.1 && other.0 <= one.1 {
            return Some(one.0.max(other.0));
        }
        if one.0 <= other.0 {
            at += 1;
        } else {
            beside += 1;
        }
    }
    None
}

fn intervals(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').filter(move |_| !text.is_empty())
}

fn interval(part: &str, completions: i64) -> Result<(i64, i64), String> {
    let mut ends = part.split('-');
    let (first, last, more) = (ends.next().unwrap_or_default(), ends.next(), ends.next());
    if more.is_some() {
        return Err(format!(
            "the fragment {part:?} violates the requirement that an index interval can have at most two parts separated by '-'"
        ));
    }
    let first = index(first, completions)?;
    let Some(last) = last else {
        return Ok((first, first));
    };
    let last = index(last, completions)?;
    if first >= last {
        return Err(out_of_order(first, last));
    }
    Ok((first, last))
}

fn index(text: &str, completions: i64) -> Result<i64, String> {
    let number: i64 = text
        .parse()
        .map_err(|_| format!("cannot convert string to integer for index: {text:?}"))?;
    if number >= completions {
        return Err(format!("too large index: {text:?}"));
    }
    Ok(number)
}

fn out_of_order(previous: i64, current: i64) -> String {
    format!("non-increasing order, previous: {previous}, current: {current}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_set(text: &str, completions: u32, expected: &str) {
        assert_eq!(Indexes::parse(text, completions).to_string(), expected);
    }

    #[test]
    fn runs_of_three_and_more_are_written_as_ranges() {
        check_set("", 9, "");
        check_set("3", 9, "3");
        check_set("0,1", 9, "0,1");
        check_set("0-1,2,4-5", 9, "0-2,4,5");
        check_set("1,3-8", 6, "1,3-5");
        check_set("1,x,2", 9, "1,2");
    }

    #[track_caller]
    fn check(text: &str, expected: Result<i64, &str>) {
        assert_eq!(count(text, 10), expected.map_err(str::to_owned));
    }

    #[test]
    fn indexes_are_counted() {
        check("", Ok(0));
        check("1,3-5,7", Ok(5));
        check("9", Ok(1));
    }

    #[test]
    fn invalid_index_sets_are_reported() {
        check("10", Err("too large index: \"10\""));
        check("a", Err("cannot convert string to integer for index: \"a\""));
        check("5-3", Err("non-increasing order, previous: 5, current: 3"));
        check("3,3", Err("non-increasing order, previous: 3, current: 3"));
        check("1,", Err("cannot convert string to integer for index: \"\""));
        check(
            "1-2-3",
            Err(
                "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts separated by '-'",
            ),
        );
    }

    #[test]
    fn common_indexes_are_found() {
        assert_eq!(overlap("1-3", "3-5", 10), Some(3));
        assert_eq!(overlap("1,4", "0,2-3,x,4", 10), Some(4));
        assert_eq!(overlap("1", "2", 10), None);
        assert_eq!(overlap("", "2", 10), None);
    }
}
