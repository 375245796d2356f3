//! The command line of kube-apiserver as arguments of `setpoint up`.

use anyhow::{Result, anyhow, bail};
use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::flags::FORWARDED;
use crate::args::{Args, Command, EtcdOverride, Up};
use crate::flag_set::{Flag, ValueType, Values};

/// kube-apiserver's defaults where those of `up` differ.
const DEFAULTS: &[(&str, &str)] = &[
    ("bind-address", "0.0.0.0"),
    ("secure-port", "6443"),
    ("service-cluster-ip-range", "10.0.0.0/24"),
];

/// The arguments of `up`: no nodes, these controllers, and every flag that both commands have.
pub(super) fn from_flags(values: &Values, controllers: &str) -> Result<Up> {
    let mut values = values.clone();
    for (name, value) in DEFAULTS {
        values.set_default(name, (*value).to_owned());
    }
    if values.text("authorization-config").is_none() {
        values.set_default("authorization-mode", "AlwaysAllow".to_owned());
    }
    check(&values)?;
    let mut words: Vec<String> = ["setpoint", "up", "--nodes=0", "--quiet", "--unsafe-no-fsync"]
        .map(str::to_owned)
        .into();
    words.push(format!("--controllers={controllers}"));
    for flag in FORWARDED {
        words.extend(forward(flag, &values));
    }
    // Of a dual-stack range `up` serves the first family.
    let ranges = values.list("service-cluster-ip-range");
    words.extend(
        ranges
            .first()
            .map(|range| format!("--service-cluster-ip-range={range}")),
    );
    if values.text("logging-format") == Some("json") {
        words.push("--log-format=json".to_owned());
    }
    let version = values.text("version").filter(|version| version.starts_with('v'));
    words.extend(version.map(|version| format!("--version={version}")));
    match Args::try_parse_from(words)
        .map_err(|error| invalid_argument(&error))?
        .command
    {
        Command::Up(up) => Ok(Up {
            is_kube_apiserver: true,
            ..*up
        }),
        other => bail!("{other:?} is not `up`"),
    }
}

/// The words of a flag in the command line of `up`; none if it is not set.
fn forward(flag: &Flag, values: &Values) -> Vec<String> {
    let name = flag.name;
    let word = |value: &str| format!("--{name}={value}");
    match flag.value_type {
        // In `up` this flag takes no value.
        ValueType::Bool if name == "allow-privileged" => match values.bool(name) {
            Some(true) => vec![format!("--{name}")],
            _ => Vec::new(),
        },
        ValueType::Bool => values
            .bool(name)
            .map(|value| word(&value.to_string()))
            .into_iter()
            .collect(),
        ValueType::List => match values.list(name) {
            list if list.is_empty() => Vec::new(),
            list => vec![word(&list.join(","))],
        },
        ValueType::Texts => values.texts(name).map(word).collect(),
        _ => values.text(name).map(word).into_iter().collect(),
    }
}

/// Reports every flag that kube-apiserver requires and that is not set, as kube-apiserver does: in one error.
fn check(values: &Values) -> Result<()> {
    let mut errors = Vec::new();
    if values.list("etcd-servers").is_empty() {
        errors.push("--etcd-servers must be specified".to_owned());
    }
    if let Err(error) = etcd_overrides(values) {
        errors.push(error.to_string());
    }
    if let Some(port) = values.text("secure-port").filter(|port| !is_port(port)) {
        errors.push(format!(
            "--secure-port {port} must be between 1 and 65535, inclusive. It cannot be turned off with 0"
        ));
    }
    let has_issuer = values.texts("service-account-issuer").next().is_some();
    if !has_issuer {
        errors.push("service-account-issuer is a required flag".to_owned());
    }
    if values.texts("service-account-key-file").next().is_none() {
        errors.push(
            "either `--service-account-key-file` or `--service-account-signing-endpoint` must be set"
                .to_owned(),
        );
    }
    if !has_issuer || values.text("service-account-signing-key-file").is_none() {
        errors.push(
            "--service-account-signing-key-file and --service-account-issuer are required flags".to_owned(),
        );
    }
    match errors.as_slice() {
        [] => Ok(()),
        [error] => bail!("{error}"),
        errors => bail!("[{}]", errors.join(", ")),
    }
}

/// The values of `--etcd-servers-overrides`.
pub(super) fn etcd_overrides(values: &Values) -> Result<Vec<EtcdOverride>> {
    let overrides = values.list("etcd-servers-overrides").into_iter();
    overrides
        .map(|text| text.parse().map_err(anyhow::Error::msg))
        .collect()
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|port| port > 0)
}

/// The error of an invalid value in the words of pflag.
fn invalid_argument(error: &clap::Error) -> anyhow::Error {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let reason = std::error::Error::source(error).map(ToString::to_string);
    match (
        error.kind(),
        context(ContextKind::InvalidArg),
        context(ContextKind::InvalidValue),
    ) {
        (ErrorKind::ValueValidation | ErrorKind::InvalidValue, Some(flag), Some(value)) => {
            let flag = flag.split([' ', '=']).next().unwrap_or(flag);
            let reason = reason.unwrap_or_else(|| "invalid value".to_owned());
            anyhow!("invalid argument {value:?} for {flag:?} flag: {reason}")
        }
        _ => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            anyhow!("{}", first.strip_prefix("error: ").unwrap_or(first))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flag_set;
    use crate::kube_apiserver::flags;

    /// What kube-apiserver requires.
    const REQUIRED: &str = "--etcd-servers=http://127.0.0.1:2379 --service-account-issuer=https://i \
        --service-account-key-file=sa.crt --service-account-signing-key-file=sa.key";

    fn up(line: &str) -> Result<Up> {
        let line = format!("{REQUIRED} {line}");
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let (values, _) = flag_set::parse(&flags::all(), &arguments).unwrap();
        from_flags(&values, "none")
    }

    #[track_caller]
    fn check_error(line: &str, expected: &str) {
        assert_eq!(up(line).unwrap_err().to_string(), expected);
    }

    #[test]
    fn defaults_are_those_of_kube_apiserver() {
        let up = up("").unwrap();
        assert_eq!(up.listen_address().to_string(), "0.0.0.0:6443");
        assert_eq!(up.authorization_flags.authorization_mode, ["AlwaysAllow"]);
        assert_eq!((up.nodes, up.controllers), (0, vec!["none".to_owned()]));
        assert!(up.unsafe_no_fsync && !up.allow_privileged);
    }

    #[test]
    fn flags_that_up_has_are_forwarded() {
        let up = up(
            "--bind-address=127.0.0.1 --secure-port 1234 --allow-privileged=true --authorization-mode=Node,RBAC \
             --disable-admission-plugins=ServiceAccount --service-account-issuer=https://j \
             --service-cluster-ip-range=10.1.0.0/16,fd00::/108 --client-ca-file=",
        )
        .unwrap();
        assert_eq!(up.listen_address().to_string(), "127.0.0.1:1234");
        assert!(up.allow_privileged);
        assert_eq!(up.authorization_flags.authorization_mode, ["Node", "RBAC"]);
        assert_eq!(up.disable_admission_plugins, ["ServiceAccount"]);
        assert_eq!(
            up.service_account_flags.service_account_issuer,
            ["https://i", "https://j"]
        );
        assert_eq!(up.service_cluster_ip_range.to_string(), "10.1.0.0/16");
        assert_eq!(up.authentication_flags.client_ca_file, None);
    }

    #[test]
    fn an_invalid_value_is_reported_as_pflag_does() {
        check_error(
            "--bind-address=here",
            "invalid argument \"here\" for \"--bind-address\" flag: invalid IP address syntax",
        );
    }

    #[test]
    fn an_invalid_override_is_reported_as_kube_apiserver_does() {
        check_error(
            "--etcd-servers-overrides=/events",
            "--etcd-servers-overrides invalid, must be of format: group/resource#servers, where servers are URLs, \
             semicolon separated",
        );
    }

    #[test]
    fn missing_flags_are_reported_together() {
        check_error(
            "--secure-port=0",
            "--secure-port 0 must be between 1 and 65535, inclusive. It cannot be turned off with 0",
        );
        let none = from_flags(&Values::default(), "none").unwrap_err().to_string();
        assert_eq!(
            none,
            "[--etcd-servers must be specified, service-account-issuer is a required flag, either \
             `--service-account-key-file` or `--service-account-signing-endpoint` must be set, \
             --service-account-signing-key-file and --service-account-issuer are required flags]"
        );
    }
}
