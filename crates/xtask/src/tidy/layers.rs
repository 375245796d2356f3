//! Who may use whom: the table of ARCHITECTURE.md as data. A new word here is a design change.

/// A crate's place in the house.
#[derive(Debug)]
pub(crate) struct Room {
    /// The folder under `crates/`, or under `examples/`.
    pub(crate) name: &'static str,
    /// A crate may use only lower levels, and of those only the ones it names.
    pub(crate) level: u8,
    pub(crate) may_use: MayUse,
}

#[derive(Debug)]
pub(crate) enum MayUse {
    Only(&'static [&'static str]),
    /// Everything that lies lower, which is all that ships.
    AllThatShips,
}

/// The level of crates that only the desk and the gate see. Nobody builds on them.
const DEV_ONLY: u8 = 7;

/// What the author of a controller builds on.
const FOR_AUTHORS: &[&str] = &["api", "client", "manifests", "runtime"];

pub(crate) const ROOMS: &[Room] = &[
    room("api", 0, &[]),
    room("schema", 0, &[]),
    room("store", 0, &[]),
    room("codec", 1, &["api", "schema"]),
    room("cache", 2, &["api", "codec"]),
    room("client", 2, &["api", "codec"]),
    room("kinds", 2, &["api", "codec", "schema"]),
    room(
        "registry",
        3,
        &["api", "cache", "codec", "kinds", "schema", "store"],
    ),
    room("admission", 4, &["api", "cache", "kinds", "registry", "schema"]),
    room("auth", 4, &["api", "cache", "codec", "registry", "schema"]),
    room("runtime", 4, &["api", "cache", "client"]),
    room(
        "apiserver",
        5,
        &["api", "auth", "codec", "kinds", "registry", "schema"],
    ),
    room("cli", 5, &["api", "client", "codec"]),
    room("controllers", 5, &["api", "runtime"]),
    room("dashboard", 5, &["api", "client"]),
    room("manifests", 5, &["api", "client", "codec", "runtime"]),
    room("node", 5, &["api", "client", "runtime"]),
    room("scheduler", 5, &["api", "runtime"]),
    Room {
        name: "setpoint",
        level: 6,
        may_use: MayUse::AllThatShips,
    },
    Room {
        name: "bench",
        level: DEV_ONLY,
        may_use: MayUse::AllThatShips,
    },
    room("conformance", DEV_ONLY, &["api", "client", "codec", "schema"]),
    Room {
        name: "testkit",
        level: DEV_ONLY,
        may_use: MayUse::AllThatShips,
    },
    room("xtask", DEV_ONLY, &[]),
    room("edge-vs-level", DEV_ONLY, FOR_AUTHORS),
    room("greeter-operator", DEV_ONLY, FOR_AUTHORS),
    room("operator", DEV_ONLY, FOR_AUTHORS),
    room("sample-controller", DEV_ONLY, FOR_AUTHORS),
];

const fn room(name: &'static str, level: u8, may_use: &'static [&'static str]) -> Room {
    Room {
        name,
        level,
        may_use: MayUse::Only(may_use),
    }
}

impl Room {
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        ROOMS.iter().find(|room| room.name == name)
    }

    /// Whether the crate may build on another.
    pub(crate) fn may_depend_on(&self, other: &Self) -> bool {
        match self.may_use {
            MayUse::Only(names) => names.contains(&other.name),
            MayUse::AllThatShips => other.level < self.level,
        }
    }

    /// Whether the crate's tests may: the test kit, the judge, and whatever lies lower.
    pub(crate) fn may_test_with(&self, other: &Self) -> bool {
        matches!(other.name, "testkit" | "conformance")
            || other.level < self.level
            || self.may_depend_on(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dependency_of_the_table_points_down() {
        for room in ROOMS {
            for other in ROOMS.iter().filter(|other| room.may_depend_on(other)) {
                assert!(other.level < room.level, "{} -> {}", room.name, other.name);
            }
        }
    }

    #[test]
    fn every_name_in_the_table_is_a_room() {
        for room in ROOMS {
            let MayUse::Only(names) = room.may_use else {
                continue;
            };
            for name in names {
                assert!(Room::find(name).is_some(), "{} names {name}", room.name);
            }
        }
    }
}
