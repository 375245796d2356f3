//! Slash-separated paths, as Go's `path` package has them. Paths of the operating system have the same form.

use super::super::Type::String as Text;
use super::super::{Row, row};
use super::text::{text, truth};

pub(super) const ROWS: &[Row] = &[
    row("base", &[Text], |_, args| text(base(args[0].as_str()))),
    row("osBase", &[Text], |_, args| text(base(args[0].as_str()))),
    row("dir", &[Text], |_, args| text(dir(args[0].as_str()))),
    row("osDir", &[Text], |_, args| text(dir(args[0].as_str()))),
    row("clean", &[Text], |_, args| text(clean(args[0].as_str()))),
    row("osClean", &[Text], |_, args| text(clean(args[0].as_str()))),
    row("ext", &[Text], |_, args| text(ext(args[0].as_str()))),
    row("osExt", &[Text], |_, args| text(ext(args[0].as_str()))),
    row("isAbs", &[Text], |_, args| {
        truth(args[0].as_str().starts_with('/'))
    }),
    row("osIsAbs", &[Text], |_, args| {
        truth(args[0].as_str().starts_with('/'))
    }),
];

fn base(path: &str) -> &str {
    if path.is_empty() {
        return ".";
    }
    let trimmed = path.trim_end_matches('/');
    match trimmed.rsplit('/').next() {
        Some("") | None => "/",
        Some(name) => name,
    }
}

fn dir(path: &str) -> String {
    clean(&path[..path.rfind('/').map_or(0, |slash| slash + 1)])
}

fn ext(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rfind('.').map_or("", |dot| &name[dot..])
}

/// The shortest path of the same meaning.
fn clean(path: &str) -> String {
    let is_rooted = path.starts_with('/');
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." if names.last().is_some_and(|last| *last != "..") => {
                names.pop();
            }
            ".." if is_rooted => {}
            name => names.push(name),
        }
    }
    match (is_rooted, names.is_empty()) {
        (true, _) => format!("/{}", names.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => names.join("/"),
    }
}
