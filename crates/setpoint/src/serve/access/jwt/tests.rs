//! The `--oidc-*` flags as a configuration.

use clap::Parser;

use super::*;
use crate::args::{Args, Command};

fn flags(line: &str) -> Result<Box<crate::args::Up>, String> {
    let words = ["setpoint", "up"].into_iter().chain(line.split_whitespace());
    let parsed = Args::try_parse_from(words).map_err(|error| error.to_string())?;
    match parsed.command {
        Command::Up(up) => Ok(up),
        other => panic!("{other:?} is not up"),
    }
}

#[track_caller]
fn check_prefix(line: &str, expected: &str) {
    let line = format!("--oidc-issuer-url https://x --oidc-client-id c {line}");
    let up = flags(&line).unwrap();
    let config = from_flags(&up.authentication_flags.oidc).unwrap().unwrap();
    assert_eq!(config.username.prefix, expected);
}

#[test]
fn user_names_are_prefixed_by_the_issuer_unless_a_flag_is_set() {
    check_prefix("", "https://x#");
    check_prefix("--oidc-username-prefix -", "");
    check_prefix("--oidc-username-prefix x:", "x:");
    check_prefix("--oidc-username-claim email", "");
}

#[test]
fn an_issuer_needs_a_client_id_and_excludes_a_file() {
    for line in [
        "--oidc-issuer-url https://x",
        "--oidc-client-id c",
        "--oidc-groups-claim groups",
        "--oidc-issuer-url https://x --oidc-client-id c --authentication-config f",
    ] {
        assert!(flags(line).is_err(), "{line}");
    }
}

#[test]
fn required_claims_are_pairs() {
    let line =
        "--oidc-issuer-url https://x --oidc-client-id c --oidc-required-claim a=b=c --oidc-required-claim d=";
    let up = flags(line).unwrap();
    let config = from_flags(&up.authentication_flags.oidc).unwrap().unwrap();
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(config.required_claims, [pair("a", "b=c"), pair("d", "")]);
}
