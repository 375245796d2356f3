//! Sets of completion indexes, serialized in the status as `1,3-5,7`.

use std::collections::BTreeSet;
use std::fmt;

/// A set of completion indexes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Indexes(BTreeSet<u32>);

impl Indexes {
    /// Parses the indexes below `completions` from a status. Invalid parts are skipped.
    pub(crate) fn parse(text: &str, completions: u32) -> Self {
        let mut indexes = BTreeSet::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
                indexes.extend((first..=last).take_while(|index| *index < completions));
            }
        }
        Self(indexes)
    }

    pub(crate) fn insert(&mut self, index: u32) {
        self.0.insert(index);
    }

    pub(crate) fn has(&self, index: u32) -> bool {
        self.0.contains(&index)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// How many are in both.
    pub(crate) fn shared_with(&self, other: &Self) -> usize {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, completions: u32, expected: &str) {
        assert_eq!(Indexes::parse(text, completions).to_string(), expected);
    }

    #[test]
    fn runs_of_three_and_more_are_written_as_ranges() {
        check("", 9, "");
        check("3", 9, "3");
        check("0,1", 9, "0,1");
        check("0-1,2,4-5", 9, "0-2,4,5");
        check("1,3-8", 6, "1,3-5");
        check("1,x,2", 9, "1,2");
    }
}
