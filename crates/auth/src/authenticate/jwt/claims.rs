//! From the claims of a verified token to a user.

use serde_json::{Map, Value};
use setpoint_api::User;

use super::config::{JwtConfig, PrefixedClaim};
use crate::authenticate::CREDENTIAL_ID;

/// The user of these claims, or why they are not accepted.
pub(super) fn user_of(config: &JwtConfig, claims: &Map<String, Value>) -> Result<User, String> {
    let mut user = User::default();
    if config.expressions.username.is_none() {
        user.name = username(&config.username, claims)?;
    }
    if let Some(mapping) = &config.groups {
        user.groups = groups(mapping, claims)?;
    }
    if let Some(claim) = &config.uid {
        user.uid = text(claims, claim)
            .map_err(|why| format!("parse uid claim {claim:?}: {why}"))?
            .to_owned();
    }
    if let Some(id) = claims.get("jti").and_then(Value::as_str) {
        user.extra
            .insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={id}")]);
    }
    let tree = config.expressions.claims_tree(claims)?;
    config.expressions.map(&tree, &mut user)?;
    for (claim, required) in &config.required_claims {
        check_required(claims, claim, required)?;
    }
    config.expressions.validate(&tree, &user)?;
    Ok(user)
}

fn username(mapping: &PrefixedClaim, claims: &Map<String, Value>) -> Result<String, String> {
    let claim = &mapping.claim;
    let name = text(claims, claim).map_err(|why| format!("parse username claims {claim:?}: {why}"))?;
    if claim == "email" {
        match claims.get("email_verified") {
            None | Some(Value::Bool(true)) => {}
            Some(Value::Bool(false)) => return Err("email not verified".to_owned()),
            Some(_) => return Err("parse 'email_verified' claim: it is not a boolean".to_owned()),
        }
    }
    Ok(format!("{}{name}", mapping.prefix))
}

/// The groups: a list of strings, or one string.
fn groups(mapping: &PrefixedClaim, claims: &Map<String, Value>) -> Result<Vec<String>, String> {
    let claim = &mapping.claim;
    let prefixed = |group: &str| format!("{}{group}", mapping.prefix);
    let not_text = || format!("parse groups claim {claim:?}: it is neither a string nor a list of strings");
    match claims.get(claim) {
        None if is_distributed(claims, claim) => {
            Err("could not expand distributed claims: they are not supported".to_owned())
        }
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(group)) => Ok(vec![prefixed(group)]),
        Some(Value::Array(list)) => {
            let group = |value: &Value| value.as_str().map(prefixed).ok_or_else(not_text);
            list.iter().map(group).collect()
        }
        Some(_) => Err(not_text()),
    }
}

/// Whether the value of a claim is at another server, which the token names.
fn is_distributed(claims: &Map<String, Value>, claim: &str) -> bool {
    let names = claims.get("_claim_names").and_then(Value::as_object);
    names.is_some_and(|names| names.contains_key(claim))
}

fn check_required(claims: &Map<String, Value>, claim: &str, required: &str) -> Result<(), String> {
    if !claims.contains_key(claim) {
        return Err(format!("required claim {claim} not present in ID token"));
    }
    let value = text(claims, claim).map_err(|why| format!("parse claim {claim}: {why}"))?;
    match value == required {
        true => Ok(()),
        false => Err(format!(
            "required claim {claim} value does not match. Got = {value}, want = {required}"
        )),
    }
}

fn text<'a>(claims: &'a Map<String, Value>, claim: &str) -> Result<&'a str, &'static str> {
    let value = claims.get(claim).ok_or("claim not present")?;
    value.as_str().ok_or("it is not a string")
}
