//! The file of `--simulation`: how simulated pods behave.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Deserializer, de};
use setpoint_api::go_duration;
use setpoint_codec::{json, yaml};
use setpoint_node::simulated::{PodRule, Simulation};

/// The fields of the file. Unknown ones are errors, so that a misspelled rule is noticed.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct SimulationFile {
    /// How long every pod takes to start.
    #[serde(deserialize_with = "duration")]
    starting: Duration,
    /// How long every container takes to stop.
    #[serde(deserialize_with = "duration")]
    stopping: Duration,
    /// Prefixes of the names of images that cannot be pulled.
    unavailable_images: Vec<String>,
    rules: Vec<PodRule>,
}

/// Reads the file; what it does not set is as in the given simulation.
pub(crate) fn read(path: &Path, defaults: Simulation) -> Result<Simulation> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text, defaults).with_context(|| format!("invalid simulation in {}", path.display()))
}

fn parse(text: &[u8], defaults: Simulation) -> Result<Simulation> {
    let tree = yaml::parse(text)?;
    let file: SimulationFile = serde_json::from_slice(&json::write(&tree))?;
    Ok(Simulation {
        starting: file.starting,
        stopping: file.stopping,
        unavailable_images: file.unavailable_images,
        rules: file.rules,
        ..defaults
    })
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    go_duration::parse(&text).map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_times_images_and_rules() {
        let text = "starting: 2s\nunavailableImages: [example.com/broken]\nrules:\n\
                    - selector: { matchLabels: { app: job } }\n  endsAfter: 30s\n  jitter: 5s\n  exitCode: 1\n";
        let simulation = parse(text.as_bytes(), Simulation::default()).unwrap();
        assert_eq!(simulation.starting, Duration::from_secs(2));
        assert_eq!(simulation.unavailable_images, ["example.com/broken"]);
        assert_eq!(simulation.rules[0].exit_code, Some(1));
        assert_eq!(simulation.rules[0].ends_after.as_deref(), Some("30s"));
    }

    #[track_caller]
    fn check_error(text: &str, expected: &str) {
        let error = format!("{:#}", parse(text.as_bytes(), Simulation::default()).unwrap_err());
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn what_the_program_does_not_know_is_an_error() {
        check_error("start: 2s\n", "unknown field `start`");
        check_error("starting: soon\n", "soon");
        check_error("rules:\n- endsAfter: never\n", "is not a duration");
    }
}
