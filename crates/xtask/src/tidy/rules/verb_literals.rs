//! API verbs are values of `ApiVerb`, and lower-case HTTP methods of `HttpVerb`: a misspelt literal compiles, and matches
//! no request.

use crate::tidy::report::Report;
use crate::tidy::tree::Tree;

const VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// Crates for development only. They drive a server from outside, or name the verbs of requests in their output.
const DEVELOPMENT: &[&str] = &["bench", "conformance", "reference", "testkit", "xtask"];

/// Literals that are not verbs: file or folder (if it ends with a slash), the literals, and what they are.
const EXCEPTIONS: &[(&str, &[&str], &str)] = &[
    ("crates/api/src/verb.rs", VERBS, "the file that spells them"),
    (
        "crates/admission/src/plugins/node_restriction.rs",
        &["delete"],
        "a word of an error message, beside `evict` and `update status for`",
    ),
    (
        "crates/admission/src/plugins/webhook/response.rs",
        &["patch"],
        "a field of an AdmissionResponse",
    ),
    (
        "crates/apiserver/src/openapi/gnostic/",
        VERBS,
        "field names in the protobuf encoding of OpenAPI",
    ),
    (
        "crates/apiserver/src/openapi/parameters.rs",
        &["watch"],
        "the query parameter of a list",
    ),
    (
        "crates/apiserver/src/request.rs",
        &["watch"],
        "the query parameter of a list",
    ),
    (
        "crates/cel/src/",
        &["list", "patch"],
        "a type and a function of CEL",
    ),
    (
        "crates/client/src/http/request.rs",
        &["watch"],
        "the query parameter of a list",
    ),
    (
        "crates/controllers/src/stateful_set/mod.rs",
        &["create", "delete"],
        "words of event messages",
    ),
    (
        "crates/pki/src/certificates.rs",
        &["create"],
        "a file operation in an error message",
    ),
    (
        "crates/registry/src/verbs/patch.rs",
        &["patch"],
        "a field path in an error message",
    ),
    (
        "crates/runtime/src/controller_ref.rs",
        &["delete"],
        "a directive of a strategic merge patch",
    ),
    (
        "crates/runtime/src/webhook/review.rs",
        &["patch"],
        "a field of AdmissionReview",
    ),
    ("crates/schema/src/fields.rs", &["patch", "watch"], "field names"),
    (
        "crates/schema/src/patch/strategic/directive.rs",
        &["delete"],
        "a directive of a strategic merge patch",
    ),
    (
        "crates/store/",
        &["create", "list"],
        "file operations in error messages; the store knows no API",
    ),
    (
        "crates/template/src/functions/sprig/",
        &["get", "list"],
        "functions of Sprig",
    ),
    ("crates/kudo/src/api/mod.rs", &["update"], "the name of a plan"),
    (
        "crates/kudo/src/merge.rs",
        &["delete"],
        "a directive of a strategic merge patch",
    ),
    (
        "crates/shell-operator/src/binding_context.rs",
        &["delete", "update"],
        "events in the legacy form of binding contexts",
    ),
];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    let shipped = tree
        .rust()
        .filter(|source| !source.krate().is_none_or(|krate| DEVELOPMENT.contains(&krate)));
    for source in shipped {
        for (offset, literal) in source.production_literals() {
            if VERBS.contains(&literal) && !is_excepted(&source.path, literal) {
                let what = format!(
                    "the verb {literal:?} is a literal: use `ApiVerb` or `HttpVerb` of `setpoint_api`"
                );
                report.violation(source, offset, what);
            }
        }
    }
}

fn is_excepted(path: &str, literal: &str) -> bool {
    EXCEPTIONS.iter().any(|(covered, literals, _)| {
        let covers = path == *covered || (covered.ends_with('/') && path.starts_with(covered));
        covers && literals.contains(&literal)
    })
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::planted;

    #[track_caller]
    fn check_text(path: &str, text: &str, positions: &[&str]) {
        planted::check(check, &[(path, text)], positions);
    }

    #[test]
    fn a_verb_in_a_comparison_a_pattern_or_a_list_is_found() {
        check_text(
            "crates/auth/src/a.rs",
            "fn a() {\n    verb == \"get\";\n    matches!(verb, \"list\" | Other);\n    all(&[\"deletecollection\"]);\n}\n",
            &[
                "crates/auth/src/a.rs:2",
                "crates/auth/src/a.rs:3",
                "crates/auth/src/a.rs:4",
            ],
        );
    }

    #[test]
    fn a_verb_in_a_longer_text_or_in_a_comment_is_none() {
        check_text(
            "crates/auth/src/a.rs",
            "// \"get\"\nfn a() {\n    b(\"cannot get\", \"impersonate\");\n}\n",
            &[],
        );
    }

    #[test]
    fn tests_and_development_crates_may_use_literals() {
        check_text(
            "crates/auth/src/a.rs",
            "#[cfg(test)]\nmod tests {\n    fn a() { b(\"get\"); }\n}\n",
            &[],
        );
        check_text("crates/bench/src/a.rs", "fn a() { b(\"get\"); }\n", &[]);
    }

    #[test]
    fn an_exception_covers_its_own_literals_only() {
        let path = "crates/store/src/log/file/mod.rs";
        check_text(
            path,
            "fn a() {\n    io(\"create\");\n    io(\"watch\");\n}\n",
            &["crates/store/src/log/file/mod.rs:3"],
        );
    }
}
