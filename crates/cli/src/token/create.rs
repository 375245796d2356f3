//! `setpoint token create`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use serde_json::Value;
use setpoint_api::{Clock, SystemClock, go_duration};
use setpoint_client::Client;
use setpoint_client::kubeconfig::Connection;
use setpoint_pki::public_key_pins;
use uuid::Uuid;

use super::objects::{ObjectAt, Token, cluster_info, permissions};
use crate::remote;

/// The characters of a token.
const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
/// The greatest multiple of the alphabet's size that a byte can hold: greater bytes would make some characters likelier.
const UNBIASED: u8 = 252;
const ID_CHARS: usize = 6;
const SECRET_CHARS: usize = 16;

/// The arguments of `setpoint token create`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How long the token is valid.
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = duration)]
    pub ttl: Duration,
    /// The URL by which nodes reach the API server [default: that of the kubeconfig].
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// Path to the kubeconfig file of an administrator [default: $KUBECONFIG or ~/.kube/config].
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
}

/// Creates a token, and prints the command by which a node joins.
pub(super) fn run(args: &Args) -> Result<()> {
    let connection = remote::connection(args.kubeconfig.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let line = runtime
        .context("cannot start the runtime")?
        .block_on(create(args, &connection))?;
    println!("{line}");
    Ok(())
}

async fn create(args: &Args, connection: &Connection) -> Result<String> {
    let Some(authority) = &connection.authority else {
        bail!("the kubeconfig has no CA, by which a node could recognize the cluster");
    };
    let pins = public_key_pins(authority).context("cannot use the CA of the kubeconfig")?;
    let pin = pins.first().context("the kubeconfig has no CA")?;
    let server = args.server.as_ref().unwrap_or(&connection.server);
    let token = Token {
        id: random_text(ID_CHARS),
        secret: random_text(SECRET_CHARS),
        expiration: expiration(SystemClock::new().now(), args.ttl)?,
    };
    let client = Client::connect(connection)?;
    let info = cluster_info(server, authority);
    for object in permissions().into_iter().chain(info).chain([token.secret()]) {
        create_object(&client, &object).await?;
    }
    Ok(format!(
        "setpoint join {server} --token {}.{} --discovery-token-ca-cert-hash {pin}",
        token.id, token.secret
    ))
}

/// Creates an object, unless it exists.
async fn create_object(client: &Client, object: &ObjectAt) -> Result<()> {
    let created = client
        .dynamic(object.resource.clone(), object.namespace)
        .create(object.body.to_string())
        .await;
    let name = object.body.pointer("/metadata/name").and_then(Value::as_str);
    match created {
        Err(status) if status.is_already_exists() => Ok(()),
        created => created
            .map(drop)
            .with_context(|| format!("cannot create {:?}", name.unwrap_or_default())),
    }
}

fn expiration(now: Timestamp, ttl: Duration) -> Result<Timestamp> {
    let at = now.checked_add(ttl).context("--ttl is too long")?;
    Ok(Timestamp::from_second(at.as_second())?)
}

/// Random characters of a token, from the system's generator.
fn random_text(chars: usize) -> String {
    // Two bytes of a UUID are not random in all their bits.
    let bytes = std::iter::repeat_with(Uuid::new_v4).flat_map(|uuid| {
        let bytes = *uuid.as_bytes();
        (0..bytes.len())
            .filter(|at| !matches!(at, 6 | 8))
            .map(move |at| bytes[at])
    });
    let unbiased = bytes.filter(|byte| *byte < UNBIASED);
    let char = |byte: u8| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]);
    unbiased.map(char).take(chars).collect()
}

fn duration(text: &str) -> Result<Duration, String> {
    go_duration::parse(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_token_are_random_letters_and_digits() {
        let (one, other) = (random_text(SECRET_CHARS), random_text(SECRET_CHARS));
        assert_eq!(one.len(), SECRET_CHARS);
        assert!(one.bytes().all(|byte| ALPHABET.contains(&byte)), "{one}");
        assert_ne!(one, other);
    }
}
