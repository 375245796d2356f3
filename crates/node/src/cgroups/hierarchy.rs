//! [`Hierarchy`]: the mounted cgroup hierarchies of the machine, of version 1 or 2.

use std::path::PathBuf;

/// A mounted hierarchy of cgroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hierarchy {
    /// Its mount point.
    pub(super) path: PathBuf,
    pub(super) version: Version,
}

/// The version of a hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Version {
    /// One of several, each with these controllers.
    V1(Vec<String>),
    /// The only one with controllers.
    V2,
    /// Of version 2 beside those of version 1, which have the controllers.
    Hybrid,
}

impl Hierarchy {
    /// Whether limits of this controller are set here.
    pub(super) fn has(&self, controller: &str) -> bool {
        match &self.version {
            Version::V1(controllers) => controllers.iter().any(|own| own == controller),
            Version::V2 => true,
            Version::Hybrid => false,
        }
    }
}

/// The hierarchies among the mounts of a process, in the format of `/proc/self/mountinfo`.
pub(super) fn parse(mountinfo: &str) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = mountinfo.lines().filter_map(parse_line).collect();
    let is_v1 = |one: &Hierarchy| matches!(&one.version, Version::V1(controllers) if !controllers.is_empty());
    if found.iter().any(is_v1) {
        for one in found.iter_mut().filter(|one| one.version == Version::V2) {
            one.version = Version::Hybrid;
        }
    }
    found
}

fn parse_line(line: &str) -> Option<Hierarchy> {
    let (mount, file_system) = line.split_once(" - ")?;
    let path = PathBuf::from(mount.split(' ').nth(4)?);
    let mut file_system = file_system.split(' ');
    let version = match file_system.next()? {
        "cgroup2" => Version::V2,
        "cgroup" => Version::V1(controllers(file_system.nth(1)?)),
        _ => return None,
    };
    Some(Hierarchy { path, version })
}

/// The controllers among the options of a mount. Hierarchies that only have a name have none.
fn controllers(options: &str) -> Vec<String> {
    let is_controller = |option: &&str| {
        let others = ["rw", "ro", "xattr", "clone_children"];
        !others.contains(option) && !option.contains('=')
    };
    options
        .split(',')
        .filter(is_controller)
        .map(ToOwned::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mountinfo: &str, controller: &str, expected: &[&str]) {
        let hierarchies = parse(mountinfo);
        let found = hierarchies.iter().filter(|one| one.has(controller));
        let found: Vec<_> = found.map(|one| one.path.to_str().unwrap()).collect();
        assert_eq!(found, expected);
    }

    const V1: &str = "30 23 0:26 / /sys/fs/cgroup/cpu rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n\
                      31 23 0:27 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n\
                      32 23 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n";

    #[test]
    fn a_controller_is_in_the_hierarchy_that_is_mounted_with_it() {
        check(V1, "cpu", &["/sys/fs/cgroup/cpu"]);
        check(V1, "memory", &["/sys/fs/cgroup/memory"]);
        check(V1, "name=systemd", &[]);
    }

    #[test]
    fn the_hierarchy_of_version_2_has_all_controllers_unless_it_is_beside_others() {
        let unified = "33 23 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        check(unified, "memory", &["/sys/fs/cgroup"]);
        check(&format!("{V1}{unified}"), "memory", &["/sys/fs/cgroup/memory"]);
        assert_eq!(parse(&format!("{V1}{unified}")).len(), 4);
    }
}
