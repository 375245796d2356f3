//! `--encryption-provider-config`: objects are stored without encryption here, so a configuration that requires it is
//! rejected. A server that ignored it would leave Secrets readable on a disk that their owner believes to be encrypted.

use std::fs;

use anyhow::{Context, Result, bail};
use setpoint_codec::yaml;
use setpoint_schema::{Map, Tree};

use crate::flag_set::Values;

const FLAG: &str = "encryption-provider-config";

/// The provider that stores objects as they are.
const IDENTITY: &str = "identity";

/// Fails if the configuration has a provider that encrypts.
pub(super) fn check(values: &Values) -> Result<()> {
    let Some(path) = values.text(FLAG).filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let text = fs::read_to_string(path)
        .with_context(|| format!("error reading encryption provider configuration file {path:?}"))?;
    check_providers(&text).with_context(|| format!("--{FLAG}={path}"))
}

fn check_providers(text: &str) -> Result<()> {
    let configuration = yaml::parse(text.as_bytes())?;
    for rule in configuration.items("resources") {
        for provider in rule.items("providers") {
            let names = provider.as_map().into_iter().flat_map(Map::iter);
            let mut names = names
                .filter(|(_, value)| !matches!(value, Tree::Null))
                .map(|(name, _)| name);
            if let Some(name) = names.find(|name| *name != IDENTITY) {
                bail!(
                    "provider {name:?} is not supported by Setpoint, which stores objects without encryption: only {IDENTITY:?} is"
                );
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(providers: &str, expected: &str) {
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers: {providers}\n"
        );
        let outcome = check_providers(&text).map_err(|error| error.to_string());
        assert_eq!(outcome.err().unwrap_or_default(), expected);
    }

    #[test]
    fn only_the_identity_provider_is_accepted() {
        check("[{identity: {}}]", "");
        for providers in [
            "[{aescbc: {keys: []}}, {identity: {}}]",
            "[{identity: {}}, {aescbc: {}}]",
        ] {
            check(
                providers,
                "provider \"aescbc\" is not supported by Setpoint, which stores objects without encryption: only \"identity\" is",
            );
        }
    }

    #[test]
    fn a_configuration_that_cannot_be_read_is_an_error() {
        assert!(check_providers("resources: [").is_err());
    }
}
