//! A unified line diff of two texts, with three lines of context.
//!
//! The matching follows Python's difflib, as Kubernetes' messages do: the longest common block first, then
//! recursively the text before and after it; in long texts no block starts at a very frequent line.
//! <https://docs.python.org/3/library/difflib.html>

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;

const CONTEXT_LINES: usize = 3;
/// Texts with more lines are not compared: the time grows with the square of their length.
const MAX_LINES: usize = 10_000;
/// From this number of lines on, a very frequent line starts no block.
const LONG_LINES: usize = 200;

/// The diff; empty if the texts are equal. Very long texts have none.
pub fn unified(old: &str, new: &str) -> String {
    let old: Vec<&str> = old.split('\n').collect();
    let new: Vec<&str> = new.split('\n').collect();
    if old.len() + new.len() > MAX_LINES {
        return "the difference is too large to show\n".to_owned();
    }
    let mut out = String::new();
    for hunk in hunks(&changes(&old, &new)) {
        write_hunk(&old, &new, &hunk, &mut out);
    }
    out
}

/// A run of lines that are equal in both texts, or that differ.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Change {
    same: bool,
    old: Range<usize>,
    new: Range<usize>,
}

/// A run of equal lines: its start in each text, and its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Block {
    old: usize,
    new: usize,
    lines: usize,
}

fn write_hunk(old: &[&str], new: &[&str], hunk: &[Change], out: &mut String) {
    let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else {
        return;
    };
    let _ = writeln!(
        out,
        "@@ -{} +{} @@",
        range(first.old.start..last.old.end),
        range(first.new.start..last.new.end)
    );
    let mut lines = |sign: char, lines: &[&str]| {
        for line in lines {
            let _ = writeln!(out, "{sign}{line}");
        }
    };
    for change in hunk {
        if change.same {
            lines(' ', &old[change.old.clone()]);
        } else {
            lines('-', &old[change.old.clone()]);
            lines('+', &new[change.new.clone()]);
        }
    }
}

/// A range in hunk notation: lines count from one; an empty range names the line before it.
fn range(lines: Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        len => format!("{},{len}", lines.start + 1),
    }
}

/// Changes that are near each other, with their context lines.
fn hunks(changes: &[Change]) -> Vec<Vec<Change>> {
    let mut hunks: Vec<Vec<Change>> = Vec::new();
    let mut hunk: Vec<Change> = Vec::new();
    let last = changes.len().saturating_sub(1);
    for (at, change) in changes.iter().enumerate() {
        let mut change = change.clone();
        if change.same {
            if at == 0 {
                cut_front(&mut change);
            } else if at < last && change.old.len() > 2 * CONTEXT_LINES {
                let mut tail = change.clone();
                cut_back(&mut tail);
                hunk.push(tail);
                hunks.push(std::mem::take(&mut hunk));
                cut_front(&mut change);
            }
            if at == last {
                cut_back(&mut change);
            }
        }
        hunk.push(change);
    }
    hunks.push(hunk);
    hunks.retain(|hunk| hunk.iter().any(|change| !change.same));
    hunks
}

fn cut_front(change: &mut Change) {
    let keep = change.old.len().min(CONTEXT_LINES);
    change.old.start = change.old.end - keep;
    change.new.start = change.new.end - keep;
}

fn cut_back(change: &mut Change) {
    let keep = change.old.len().min(CONTEXT_LINES);
    change.old.end = change.old.start + keep;
    change.new.end = change.new.start + keep;
}

fn changes(old: &[&str], new: &[&str]) -> Vec<Change> {
    let mut changes = Vec::new();
    let (mut i, mut j) = (0, 0);
    for block in blocks(old, new) {
        if i < block.old || j < block.new {
            changes.push(Change {
                same: false,
                old: i..block.old,
                new: j..block.new,
            });
        }
        (i, j) = (block.old + block.lines, block.new + block.lines);
        if block.lines > 0 {
            changes.push(Change {
                same: true,
                old: block.old..i,
                new: block.new..j,
            });
        }
    }
    changes
}

/// The equal runs in order, with an empty one at the end.
fn blocks(old: &[&str], new: &[&str]) -> Vec<Block> {
    let indexes = line_indexes(new);
    let mut found = Vec::new();
    let mut open = vec![(0..old.len(), 0..new.len())];
    while let Some((olds, news)) = open.pop() {
        let block = longest(old, new, &indexes, (&olds, &news));
        if block.lines == 0 {
            continue;
        }
        found.push(block);
        open.push((olds.start..block.old, news.start..block.new));
        open.push((
            block.old + block.lines..olds.end,
            block.new + block.lines..news.end,
        ));
    }
    found.sort_unstable();
    let mut merged: Vec<Block> = Vec::with_capacity(found.len() + 1);
    for block in found {
        match merged.last_mut() {
            Some(last) if last.old + last.lines == block.old && last.new + last.lines == block.new => {
                last.lines += block.lines;
            }
            _ => merged.push(block),
        }
    }
    merged.push(Block {
        old: old.len(),
        new: new.len(),
        lines: 0,
    });
    merged
}

/// The indexes of each line. In a long text, lines that make up more than a hundredth of it are left out.
fn line_indexes<'a>(lines: &[&'a str]) -> HashMap<&'a str, Vec<usize>> {
    let mut indexes: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, line) in lines.iter().enumerate() {
        indexes.entry(line).or_default().push(at);
    }
    if lines.len() >= LONG_LINES {
        let max = lines.len() / 100 + 1;
        indexes.retain(|_, found| found.len() <= max);
    }
    indexes
}

/// The longest equal run in these ranges of both texts; of several, the first.
fn longest(
    old: &[&str],
    new: &[&str],
    indexes: &HashMap<&str, Vec<usize>>,
    (olds, news): (&Range<usize>, &Range<usize>),
) -> Block {
    let mut best = Block {
        old: olds.start,
        new: news.start,
        lines: 0,
    };
    // By index in the new text: the length of the run that ends there and at the previous line of the old text.
    let mut runs: HashMap<usize, usize> = HashMap::new();
    for i in olds.clone() {
        let mut next = HashMap::new();
        let found = indexes.get(old[i]).map(Vec::as_slice).unwrap_or_default();
        for j in found.iter().copied().filter(|j| news.contains(j)) {
            let lines = j.checked_sub(1).and_then(|j| runs.get(&j)).unwrap_or(&0) + 1;
            next.insert(j, lines);
            if lines > best.lines {
                best = Block {
                    old: i + 1 - lines,
                    new: j + 1 - lines,
                    lines,
                };
            }
        }
        runs = next;
    }
    while best.old > olds.start && best.new > news.start && old[best.old - 1] == new[best.new - 1] {
        (best.old, best.new, best.lines) = (best.old - 1, best.new - 1, best.lines + 1);
    }
    while best.old + best.lines < olds.end
        && best.new + best.lines < news.end
        && old[best.old + best.lines] == new[best.new + best.lines]
    {
        best.lines += 1;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(old: &str, new: &str, expected: &str) {
        assert_eq!(unified(old, new), expected);
    }

    #[test]
    fn equal_texts_do_not_differ() {
        check("a\nb", "a\nb", "");
    }

    #[test]
    fn a_changed_line_has_three_lines_around_it() {
        check(
            "1\n2\n3\n4\n5\n6\n7\n8\n9",
            "1\n2\n3\n4\nx\n6\n7\n8\n9",
            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n",
        );
    }

    #[test]
    fn added_and_removed_lines_are_counted() {
        check("a", "a\nb", "@@ -1 +1,2 @@\n a\n+b\n");
        check("a\nb", "b", "@@ -1,2 +1 @@\n-a\n b\n");
    }

    #[test]
    fn distant_changes_are_separate_hunks() {
        let old: Vec<String> = (0..30).map(|line| line.to_string()).collect();
        let mut new = old.clone();
        new[2] = "x".to_owned();
        new[25] = "y".to_owned();
        check(
            &old.join("\n"),
            &new.join("\n"),
            "@@ -1,6 +1,6 @@\n 0\n 1\n-2\n+x\n 3\n 4\n 5\n@@ -23,7 +23,7 @@\n 22\n 23\n 24\n-25\n+y\n 26\n 27\n 28\n",
        );
    }

    #[test]
    fn a_frequent_line_starts_no_block_in_a_long_text() {
        let old = ["x"; 300].join("\n");
        let new = format!("y\n{old}");
        // The frequent line starts no block, so nothing is common.
        assert!(unified(&old, &new).starts_with("@@ -1,300 +1,301 @@\n-x\n"));
    }
}
