//! Seeds: the committed inputs that mutations start from, in `corpus/`.

use std::fs;
use std::path::{Path, PathBuf};

/// The files of a directory, in the order of their names.
pub(crate) fn files(name: &str) -> Vec<Vec<u8>> {
    let dir = directory().join(name);
    let entries = fs::read_dir(&dir).expect("a target has a directory of seeds");
    let mut paths: Vec<PathBuf> = entries.map_while(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let read = |path: &PathBuf| fs::read(path).expect("a seed can be read");
    paths.iter().map(read).collect()
}

/// The lines of a file.
pub(crate) fn lines(name: &str) -> Vec<Vec<u8>> {
    let text = fs::read_to_string(directory().join(name)).expect("a target has a file of seeds");
    text.lines().map(|line| line.as_bytes().to_vec()).collect()
}

/// The templates of the cases that `crates/template` compares with Go.
pub(crate) fn recorded_templates() -> Vec<Vec<u8>> {
    let names = ["language", "errors", "printf", "sprig"];
    let paths = names.map(|name| directory().join(format!("../../template/testdata/{name}.jsonl")));
    let cases = paths.iter().flat_map(|path| {
        let text = fs::read_to_string(path).expect("the cases of the templates can be read");
        let cases = text.lines().map(serde_json::from_str);
        let cases: Result<Vec<serde_json::Value>, _> = cases.collect();
        cases.expect("each line has a case")
    });
    let templates = cases.filter_map(|case| Some(case["t"].as_str()?.as_bytes().to_vec()));
    templates.collect()
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}
