//! The naming rule: identifiers, file names, comments and Markdown use the field's vocabulary.
//!
//! A name or a comment is understood by a reader who knows Kubernetes and Rust, at first sight. The rule holds the part of
//! that which a machine can: words that withhold the noun or the actor, and types that are named by a participle or a
//! figure of speech. The words are in `vocabulary.rs`, with the uses that are correct and why.

mod vocabulary;

use std::collections::BTreeSet;

use vocabulary::{ALLOWED, FILES, GROUPS, Group, NOUNS, PHRASES, TYPES};

use crate::tidy::lexer::is_word;
use crate::tidy::report::Report;
use crate::tidy::source::Source;
use crate::tidy::tree::Tree;

/// Keywords that introduce a type.
const TYPE_KEYWORDS: &[&str] = &["struct", "enum", "trait", "type", "union"];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for source in tree.rust() {
        check_file_name(source, report);
        check_prose(source, &source.comments, report);
        check_identifiers(source, report);
    }
    for source in tree.sources.iter().filter(|source| source.path.ends_with(".md")) {
        check_prose(source, &without_code_blocks(&source.text), report);
    }
}

fn check_file_name(source: &Source, report: &mut Report) {
    let path = source.path.strip_suffix(".rs").unwrap_or(&source.path);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    let stem = path.rsplit('/').next().unwrap_or(path);
    let word = parts(stem).find_map(|part| banned_in_names(&part).map(|group| group.instead));
    if let Some(instead) = word
        && !is_allowed(source, stem)
    {
        report.violation_of(&source.path, format!("file name `{stem}`: write {instead}"));
    } else if FILES.contains(&stem) && !is_allowed(source, stem) {
        report.violation_of(
            &source.path,
            format!("file name `{stem}`: name the file after its subject"),
        );
    }
}

/// Checks the words of comments or of a page. What stands in backticks or in double quotes is code or a quotation.
fn check_prose(source: &Source, prose: &str, report: &mut Report) {
    let mut start = 0;
    for line in prose.split_inclusive('\n') {
        let plain = without_urls(&without_quotations(line)).to_ascii_lowercase();
        let plain = without_phrases(plain);
        for (offset, word) in words(&plain) {
            if let Some(group) = GROUPS.iter().find(|group| group.words.contains(&word))
                && !is_allowed(source, word)
            {
                report.violation(
                    source,
                    start + offset,
                    format!("`{word}` in prose: write {}", group.instead),
                );
            }
        }
        start += line.len();
    }
}

/// Checks each identifier of a file once, where it stands first.
fn check_identifiers(source: &Source, report: &mut Report) {
    let mut known = BTreeSet::new();
    let mut previous = "";
    for (offset, word) in words(&source.code) {
        let declares_type = TYPE_KEYWORDS.contains(&previous);
        previous = word;
        let is_new = known.insert((word, declares_type));
        if !is_new || is_allowed(source, word) {
            continue;
        }
        if let Some(group) = parts(word).find_map(|part| banned_in_names(&part)) {
            report.violation(
                source,
                offset,
                format!("identifier `{word}`: write {}", group.instead),
            );
        } else if declares_type && is_no_noun(word) {
            report.violation(source, offset, format!("type `{word}`: name it by a noun"));
        }
    }
}

fn banned_in_names(part: &str) -> Option<&'static Group> {
    GROUPS
        .iter()
        .find(|group| group.in_names && group.words.contains(&part))
}

/// Whether a type's name is a lone participle or a figure of speech.
fn is_no_noun(name: &str) -> bool {
    let is_one_word = name.starts_with(|first: char| first.is_ascii_uppercase()) && parts(name).count() == 1;
    let is_participle = is_one_word && (name.ends_with("ed") || name.ends_with("ing"));
    TYPES.contains(&name) || (is_participle && !NOUNS.iter().any(|(noun, _)| *noun == name))
}

fn is_allowed(source: &Source, word: &str) -> bool {
    ALLOWED.iter().any(|allowed| {
        let covers = source.path == allowed.path
            || (allowed.path.ends_with('/') && source.path.starts_with(allowed.path));
        covers && (allowed.word == "*" || allowed.word == word)
    })
}

/// The words of an identifier in lower case: `HandlerOptions` and `handler_options` have two.
fn parts(identifier: &str) -> impl Iterator<Item = String> {
    let mut parts = vec![String::new()];
    let mut after_lower = false;
    for letter in identifier.chars() {
        if letter == '_' || (letter.is_ascii_uppercase() && after_lower) {
            parts.push(String::new());
        }
        after_lower = letter.is_ascii_lowercase() || letter.is_ascii_digit();
        if letter != '_'
            && let Some(part) = parts.last_mut()
        {
            part.push(letter.to_ascii_lowercase());
        }
    }
    parts.into_iter().filter(|part| !part.is_empty())
}

/// The words of a text with their offsets. An identifier is one word.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() && !is_word(bytes[at]) {
            at += 1;
        }
        let start = at;
        while at < bytes.len() && is_word(bytes[at]) {
            at += 1;
        }
        (start < at).then(|| (start, &text[start..at]))
    })
}

/// A line with what stands in backticks or double quotes blanked out; same length.
fn without_quotations(line: &str) -> String {
    let mut open: Option<char> = None;
    let mut plain = String::with_capacity(line.len());
    for letter in line.chars() {
        let closes = open == Some(letter);
        let opens = open.is_none() && matches!(letter, '`' | '"');
        match open.is_some() || opens {
            true => plain.extend(std::iter::repeat_n(' ', letter.len_utf8())),
            false => plain.push(letter),
        }
        if closes {
            open = None;
        } else if opens {
            open = Some(letter);
        }
    }
    plain
}

/// A line with its URLs blanked out; same length.
fn without_urls(line: &str) -> String {
    let mut plain = line.to_owned();
    for word in line.split_whitespace().filter(|word| word.contains("://")) {
        plain = plain.replace(word, &" ".repeat(word.len()));
    }
    plain
}

fn without_phrases(mut line: String) -> String {
    for phrase in PHRASES {
        if line.contains(phrase) {
            line = line.replace(phrase, &" ".repeat(phrase.len()));
        }
    }
    line
}

/// A page with its fenced code blocks blanked out; same length, same lines.
fn without_code_blocks(page: &str) -> String {
    let mut inside = false;
    let mut prose = String::with_capacity(page.len());
    for line in page.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        if is_fence || inside {
            prose.extend(line.chars().flat_map(|letter| match letter {
                '\n' => std::iter::repeat_n('\n', 1),
                other => std::iter::repeat_n(' ', other.len_utf8()),
            }));
        } else {
            prose.push_str(line);
        }
        inside ^= is_fence;
    }
    prose
}

#[cfg(test)]
mod tests;
