//! The `--authorization-*` flags as a configuration.

use clap::Parser;

use super::*;
use crate::args::{Args, Command};

fn modes(line: &str) -> Result<Vec<&'static str>, String> {
    let words = ["setpoint", "up"].into_iter().chain(line.split_whitespace());
    let parsed = Args::try_parse_from(words).map_err(|error| error.to_string())?;
    let Command::Up(up) = parsed.command else {
        panic!("the command is up");
    };
    let configs = configs(&up.authorization_flags).map_err(|error| error.to_string())?;
    Ok(configs.iter().map(AuthorizerConfig::mode).collect())
}

#[test]
fn modes_are_in_the_order_of_the_flag() {
    assert_eq!(modes(""), Ok(vec!["Node", "RBAC"]));
    assert_eq!(
        modes("--authorization-mode RBAC,AlwaysAllow"),
        Ok(vec!["RBAC", "AlwaysAllow"])
    );
    assert_eq!(
        modes("--authorization-mode Webhook,Node --authorization-webhook-config-file f"),
        Ok(vec!["Webhook", "Node"])
    );
}

#[test]
fn a_file_and_flags_exclude_each_other() {
    assert!(modes("--authorization-config f --authorization-mode RBAC").is_err());
    assert_eq!(
        modes("--authorization-webhook-config-file f"),
        Err("cannot specify --authorization-webhook-config-file without mode Webhook".to_owned())
    );
}
