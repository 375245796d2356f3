//! The store is independent of Kubernetes: none of its terms, in code or in comments.

use crate::tidy::lexer::is_word;
use crate::tidy::report::Report;
use crate::tidy::source::Source;
use crate::tidy::tree::Tree;

/// Words that may not be a part of an identifier, nor stand alone in a sentence.
const WORDS: &[&str] = &[
    "apigroup",
    "configmap",
    "configmaps",
    "crd",
    "crds",
    "daemonset",
    "deployment",
    "deployments",
    "gvk",
    "gvr",
    "k8s",
    "kube",
    "kubeconfig",
    "kubectl",
    "kubelet",
    "kubernetes",
    "namespace",
    "namespaced",
    "namespaces",
    "pod",
    "pods",
    "replicaset",
    "replicasets",
];

/// Words that are found anywhere in an identifier once case and underscores are gone.
const JOINED: &[&str] = &[
    "apiserver",
    "configmap",
    "kubernetes",
    "replicaset",
    "resourceversion",
];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for source in tree
        .sources
        .iter()
        .filter(|source| source.krate() == Some("store"))
    {
        for (offset, identifier) in identifiers(&source.text) {
            if is_foreign(identifier) {
                let what = format!("`{identifier}` is a word of Kubernetes: say it in the store's own words");
                report.violation(source, offset, what);
            }
        }
        check_phrase(source, report);
    }
}

/// The one name that prose writes as two words.
fn check_phrase(source: &Source, report: &mut Report) {
    let lower = source.text.to_ascii_lowercase();
    for (offset, phrase) in lower.match_indices("resource version") {
        report.violation(
            source,
            offset,
            format!("`{phrase}` is a word of Kubernetes: here it is a revision"),
        );
    }
}

fn is_foreign(identifier: &str) -> bool {
    let joined = identifier.replace('_', "").to_ascii_lowercase();
    JOINED.iter().any(|word| joined.contains(word))
        || parts(identifier).any(|part| WORDS.contains(&part.as_str()))
}

/// Runs of identifier characters, in code and prose alike.
fn identifiers(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let begins = |offset: usize| {
        is_word(text.as_bytes()[offset]) && (offset == 0 || !is_word(text.as_bytes()[offset - 1]))
    };
    (0..text.len())
        .filter(move |&offset| begins(offset))
        .map(|offset| {
            let length = text
                .bytes()
                .skip(offset)
                .take_while(|&byte| is_word(byte))
                .count();
            (offset, &text[offset..offset + length])
        })
}

/// `PodName`, `pod_name` and `POD_NAME` are each `pod` and `name`.
fn parts(identifier: &str) -> impl Iterator<Item = String> {
    identifier.split('_').flat_map(camel_parts)
}

fn camel_parts(word: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut after_lower = false;
    for letter in word.chars() {
        if letter.is_uppercase() && after_lower {
            parts.push(String::new());
        }
        after_lower = !letter.is_uppercase();
        parts
            .last_mut()
            .expect("there is always a part")
            .push(letter.to_ascii_lowercase());
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::planted;

    #[track_caller]
    fn check_store(text: &str, positions: &[&str]) {
        planted::check(check, &[("crates/store/src/lib.rs", text)], positions);
    }

    #[test]
    fn the_stores_own_words_pass() {
        check_store(
            "/// A revision of a key; the podium of a tripod.\nfn revision(node: u64) {}\n",
            &[],
        );
    }

    #[test]
    fn a_foreign_word_in_a_comment_is_found() {
        check_store("//! Keeps pods.\n", &["crates/store/src/lib.rs:1"]);
    }

    #[test]
    fn a_foreign_part_of_a_name_is_found() {
        let positions = [
            "crates/store/src/lib.rs:1",
            "crates/store/src/lib.rs:2",
            "crates/store/src/lib.rs:3",
        ];
        check_store(
            "struct PodKey;\nlet pod_key = 1;\nconst MAX_NAMESPACES: u8 = 1;\n",
            &positions,
        );
    }

    #[test]
    fn a_foreign_word_in_a_string_is_found() {
        check_store("\n\"kubernetes\"", &["crates/store/src/lib.rs:2"]);
    }

    #[test]
    fn a_resource_version_is_found_however_it_is_written() {
        let positions = [
            "crates/store/src/lib.rs:1",
            "crates/store/src/lib.rs:2",
            "crates/store/src/lib.rs:3",
        ];
        check_store(
            "let resource_version = 1;\nlet resourceVersion = 2;\n// the resource version\n",
            &positions,
        );
    }

    #[test]
    fn other_crates_may_speak_of_it() {
        planted::check(check, &[("crates/kinds/src/lib.rs", "// pods")], &[]);
    }
}
