//! [`Args`]: the arguments of the plugin (upstream: `DynamicResourcesArgs`).

use std::time::Duration;

use serde::Deserialize;
use setpoint_api::field::Errors;
use setpoint_api::go_duration;

use crate::plugins::{PluginArgs, PluginError};

const DEFAULT_FILTER_TIMEOUT: Duration = Duration::from_secs(10);
const DEFAULT_BINDING_TIMEOUT: Duration = Duration::from_secs(600);
const MIN_BINDING_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the plugin works for a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Args {
    /// The limit of the search for devices on one node; `None` for no limit.
    pub(super) filter_timeout: Option<Duration>,
    /// The limit of PreBind's wait until devices are ready.
    pub(super) binding_timeout: Duration,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawArgs {
    filter_timeout: Option<String>,
    binding_timeout: Option<String>,
}

/// A duration and whether it is below zero.
#[derive(Debug, Clone, Copy)]
struct SignedDuration {
    amount: Duration,
    is_negative: bool,
}

impl Default for Args {
    fn default() -> Self {
        Self {
            filter_timeout: Some(DEFAULT_FILTER_TIMEOUT),
            binding_timeout: DEFAULT_BINDING_TIMEOUT,
        }
    }
}

impl Args {
    pub(super) fn read(args: &PluginArgs) -> Result<Self, PluginError> {
        let (filter_timeout, binding_timeout) = durations(args)?;
        let filter_timeout = filter_timeout.map_or(DEFAULT_FILTER_TIMEOUT, |timeout| timeout.amount);
        Ok(Self {
            filter_timeout: (!filter_timeout.is_zero()).then_some(filter_timeout),
            binding_timeout: binding_timeout.map_or(DEFAULT_BINDING_TIMEOUT, |timeout| timeout.amount),
        })
    }
}

/// Reports values out of range. Arguments that cannot be decoded are reported when the plugin is built.
pub(in crate::plugins) fn check(args: &PluginArgs, errors: &Errors) {
    let Ok((filter_timeout, binding_timeout)) = durations(args) else {
        return;
    };
    if let Some(timeout) = filter_timeout.filter(|timeout| timeout.is_negative) {
        let value = timeout.to_string();
        errors
            .at("filterTimeout")
            .invalid(value, "must be zero or positive");
    }
    let is_short = |timeout: &SignedDuration| timeout.is_negative || timeout.amount < MIN_BINDING_TIMEOUT;
    if let Some(timeout) = binding_timeout.filter(is_short) {
        let value = timeout.to_string();
        errors
            .at("bindingTimeout")
            .invalid(value, "must be at least 1 second");
    }
}

fn durations(args: &PluginArgs) -> Result<(Option<SignedDuration>, Option<SignedDuration>), PluginError> {
    let raw: RawArgs = args.decode()?;
    let parse = |text: Option<String>| text.as_deref().map(SignedDuration::parse).transpose();
    Ok((parse(raw.filter_timeout)?, parse(raw.binding_timeout)?))
}

impl SignedDuration {
    fn parse(text: &str) -> Result<Self, PluginError> {
        let (amount, is_negative) = match text.strip_prefix('-') {
            Some(amount) => (amount, true),
            None => (text, false),
        };
        let amount = go_duration::parse(amount);
        let amount = amount.map_err(|_| PluginError(format!("time: invalid duration {text:?}")))?;
        Ok(Self {
            amount,
            is_negative: is_negative && !amount.is_zero(),
        })
    }
}

impl std::fmt::Display for SignedDuration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.is_negative { "-" } else { "" };
        write!(f, "{sign}{}", go_duration::format(self.amount))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check_args(args: Value, filter_seconds: Option<u64>, binding_seconds: u64) {
        let read = Args::read(&PluginArgs(args)).unwrap();
        let expected = Args {
            filter_timeout: filter_seconds.map(Duration::from_secs),
            binding_timeout: Duration::from_secs(binding_seconds),
        };
        assert_eq!(read, expected);
    }

    #[test]
    fn timeouts_have_defaults() {
        check_args(Value::Null, Some(10), 600);
        check_args(
            json!({"filterTimeout": "5s", "bindingTimeout": "1m30s"}),
            Some(5),
            90,
        );
        check_args(json!({"filterTimeout": "0s"}), None, 600);
    }

    #[test]
    fn a_timeout_is_a_duration() {
        let error = Args::read(&PluginArgs(json!({"filterTimeout": "xx"}))).unwrap_err();
        assert_eq!(error.0, "time: invalid duration \"xx\"");
        assert!(Args::read(&PluginArgs(json!({"filterTimeout": 5}))).is_err());
    }
}
