//! The rules, one file each, with a planted violation in its tests.
//!
//! A rule takes the tree and reports; it never stops at the first finding. Exceptions are rows in a rule's own table,
//! each with its reason. A rule that cannot be held by text belongs to clippy or to review.

mod channels;
mod compat;
mod compat_kinds;
mod detached;
mod doc_paths;
mod field_names;
mod file_names;
mod http;
mod kind_names;
mod layers;
mod leftovers;
mod lints;
mod machine_paths;
mod module_docs;
mod naming;
mod package;
mod public_api;
mod pure;
mod server_side;
mod sizes;
mod store_users;
mod store_words;
mod testdata;
mod time;
mod unsafe_code;
mod verb_literals;

use super::report::Report;
use super::tree::Tree;

/// Looks at the whole tree and reports what breaks the rule.
pub(crate) type Check = fn(&Tree, &mut Report);

/// Every rule, by the name that its findings carry.
pub(crate) const ALL: &[(&str, Check)] = &[
    ("layers", layers::check),
    ("store-words", store_words::check),
    ("store-users", store_users::check),
    ("pure", pure::check),
    ("http", http::check),
    ("server-side", server_side::check),
    ("kind-names", kind_names::check),
    ("field-names", field_names::check),
    ("verb-literals", verb_literals::check),
    ("detached", detached::check),
    ("channels", channels::check),
    ("time", time::check),
    ("unsafe-code", unsafe_code::check),
    ("sizes", sizes::check),
    ("file-names", file_names::check),
    ("module-docs", module_docs::check),
    ("testdata", testdata::check),
    ("leftovers", leftovers::check),
    ("lints", lints::check),
    ("machine-paths", machine_paths::check),
    ("naming", naming::check),
    ("doc-paths", doc_paths::check),
    ("compat", compat::check),
    ("compat-kinds", compat_kinds::check),
    ("package", package::check),
    ("public-api", public_api::check),
];

/// An exception to a rule: where it holds, and why.
#[derive(Debug)]
struct Exception {
    /// A file, or a folder when it ends with a slash.
    path: &'static str,
    /// Kept beside the exception so that a reader can judge whether it still holds.
    #[expect(dead_code, reason = "read by people")]
    reason: &'static str,
}

impl Exception {
    const fn new(path: &'static str, reason: &'static str) -> Self {
        Self { path, reason }
    }

    fn covers(&self, path: &str) -> bool {
        path == self.path || (self.path.ends_with('/') && path.starts_with(self.path))
    }
}

fn is_excepted(exceptions: &[Exception], path: &str) -> bool {
    exceptions.iter().any(|exception| exception.covers(path))
}
