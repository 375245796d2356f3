//! Golden objects: one object of every kind with every field set, as JSON and as protobuf.

use crate::{file_names, folder, read};

/// One object in both encodings of the API.
#[derive(Debug, Clone)]
pub struct Golden {
    /// Group, version and kind joined by dots; the core group is called `core`.
    pub name: String,
    /// Indented JSON.
    pub json: Vec<u8>,
    /// Protobuf message in the envelope that Kubernetes sends.
    pub protobuf: Vec<u8>,
}

/// All golden objects, sorted by name.
pub fn golden() -> Vec<Golden> {
    let folder = folder().join("golden");
    let names = file_names(&folder);
    let names = names.iter().filter_map(|name| name.strip_suffix(".json"));
    let golden = names.map(|name| Golden {
        name: name.to_owned(),
        json: read(&folder.join(format!("{name}.json"))),
        protobuf: read(&folder.join(format!("{name}.pb"))),
    });
    golden.collect()
}

// === impl Golden ===

impl Golden {
    /// The golden object of a kind, if there is one. Not every kind has one: lists do not.
    pub fn find(group: &str, version: &str, kind: &str) -> Option<Self> {
        golden()
            .into_iter()
            .find(|golden| golden.gvk() == (group, version, kind))
    }

    /// Group, version and kind; the core group is empty, as in the API.
    pub fn gvk(&self) -> (&str, &str, &str) {
        let (group_version, kind) = self.name.rsplit_once('.').expect("the name ends in .Kind");
        let (group, version) = group_version
            .rsplit_once('.')
            .expect("the name has a group and a version");
        (if group == "core" { "" } else { group }, version, kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_golden_object_is_found_by_its_kind() {
        let pod = Golden::find("", "v1", "Pod").unwrap();
        assert_eq!(pod.name, "core.v1.Pod");
        assert!(pod.json.starts_with(b"{") && pod.protobuf.starts_with(b"k8s\0"));
        assert!(Golden::find("core", "v1", "Pod").is_none());
    }
}
