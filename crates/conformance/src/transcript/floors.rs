//! The number of cases of each area that must pass: a file whose numbers only increase.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Count;

/// The number of cases that must pass, by area.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Floors {
    areas: BTreeMap<String, usize>,
}

const HEAD: &str = "\
# The number of recorded cases of each area with the same response as Kubernetes. `cargo xtask test` fails below; the
# numbers only increase: `cargo run -p setpoint-conformance -- replay ... --raise-floors` writes the current numbers.

[areas]
";

impl Floors {
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{} cannot be parsed", path.display()))
    }

    /// The areas below their floor: name, count, floor.
    pub fn missed(&self, counts: &BTreeMap<String, Count>) -> Vec<(String, Count, usize)> {
        let missed = counts.iter().filter_map(|(area, count)| {
            let floor = *self.areas.get(area)?;
            (count.passed < floor).then(|| (area.clone(), *count, floor))
        });
        missed.collect()
    }

    /// The floors raised to these counts, never lowered.
    #[must_use]
    pub fn raised(mut self, counts: &BTreeMap<String, Count>) -> Self {
        for (area, count) in counts {
            let floor = self.areas.entry(area.clone()).or_default();
            *floor = (*floor).max(count.passed);
        }
        self
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        let rows: String = self
            .areas
            .iter()
            .map(|(area, floor)| format!("{area} = {floor}\n"))
            .collect();
        fs::write(path, format!("{HEAD}{rows}")).with_context(|| format!("write {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: usize) -> BTreeMap<String, Count> {
        BTreeMap::from([("http".to_owned(), Count { passed, total: 9 })])
    }

    fn floors(text: &str) -> Floors {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn an_area_below_its_floor_is_missed() {
        let floors = floors("[areas]\nhttp = 5\nkinds = 7\n");
        assert_eq!(floors.missed(&counts(4)).len(), 1);
        assert_eq!(floors.missed(&counts(5)).len(), 0);
    }

    #[test]
    fn floors_only_increase() {
        let raised = |from: &str, passed| floors(from).raised(&counts(passed));
        assert_eq!(raised("[areas]\nhttp = 5\n", 3), floors("[areas]\nhttp = 5\n"));
        assert_eq!(raised("[areas]\nhttp = 5\n", 6), floors("[areas]\nhttp = 6\n"));
    }

    #[test]
    fn written_floors_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("floors.toml");
        let floors = floors("[areas]\nhttp = 5\n");
        floors.write(&path).unwrap();
        assert_eq!(Floors::read(&path).unwrap(), floors);
    }
}
