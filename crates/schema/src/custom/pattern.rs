//! Regular expressions of schemas, compiled when they are first used.
//!
//! A compiled expression takes kilobytes, and a CustomResourceDefinition may have tens of thousands of them. Only so many
//! are kept in the whole process; the others are compiled again for each value.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use regex::Regex;

/// Compiled expressions that are kept.
const MAX_KEPT: usize = 10_000;

/// The number of compiled expressions that are kept now.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// A regular expression with its text.
#[derive(Debug)]
pub struct Pattern {
    pub text: String,
    kept: OnceLock<KeptRegex>,
}

/// A compiled expression, counted until it is dropped.
#[derive(Debug)]
struct KeptRegex(Regex);

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            kept: OnceLock::new(),
        }
    }

    /// Checks that a regular expression can be compiled, or returns the compiler's error.
    pub fn check(text: &str) -> Result<(), String> {
        Regex::new(text).map(drop).map_err(|error| error.to_string())
    }

    /// Whether a text matches. An expression that cannot be compiled matches every text.
    pub(super) fn is_match(&self, text: &str) -> bool {
        if let Some(kept) = self.kept.get() {
            return kept.0.is_match(text);
        }
        let Ok(regex) = Regex::new(&self.text) else {
            return true;
        };
        let is_match = regex.is_match(text);
        if let Some(kept) = KeptRegex::try_new(regex) {
            // Of two threads that compile it at once one keeps its own.
            let _ = self.kept.set(kept);
        }
        is_match
    }
}

impl Clone for Pattern {
    fn clone(&self) -> Self {
        Pattern::new(&self.text)
    }
}

impl KeptRegex {
    fn try_new(regex: Regex) -> Option<Self> {
        let kept = KEPT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |kept| {
            (kept < MAX_KEPT).then_some(kept + 1)
        });
        kept.is_ok().then(|| Self(regex))
    }
}

impl Drop for KeptRegex {
    fn drop(&mut self) {
        KEPT.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiled_expressions_are_kept_up_to_a_limit() {
        let patterns: Vec<Pattern> = (0..MAX_KEPT + 100)
            .map(|at| Pattern::new(&at.to_string()))
            .collect();
        assert!(
            patterns
                .iter()
                .enumerate()
                .all(|(at, pattern)| pattern.is_match(&at.to_string()))
        );
        let kept = patterns
            .iter()
            .filter(|pattern| pattern.kept.get().is_some())
            .count();
        assert!(kept <= MAX_KEPT, "{kept}");
        assert!(patterns.iter().all(|pattern| !pattern.is_match("x")));
    }

    #[test]
    fn an_expression_that_cannot_be_compiled_is_ignored() {
        assert!(Pattern::check("[").is_err());
        assert!(Pattern::new("[").is_match("x"));
    }
}
