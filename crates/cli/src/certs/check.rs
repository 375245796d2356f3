//! `setpoint certs check`: lists the certificates and keys of a data directory, or of a running server.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use setpoint_api::{Clock, SystemClock};
use setpoint_client::Http;
use setpoint_client::kubeconfig::{Connection, Identity};
use setpoint_pki::{CertificateInfo, Entry, inventory};

use super::pki_dir;
use crate::remote;

/// The arguments of `setpoint certs check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The data directory. If not set, the certificates of the kubeconfig and of its server are listed.
    #[arg(long, value_name = "DIR", conflicts_with = "kubeconfig")]
    pub data_dir: Option<PathBuf>,
    /// Path to the kubeconfig file of the running server [default: $KUBECONFIG or ~/.kube/config].
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// Fail if a certificate expires within this number of days.
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    pub within: i64,
    /// The output format [default: plain text].
    #[arg(long, short, value_enum)]
    pub output: Option<Output>,
}

/// An output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Json,
}

/// A certificate or key in the output.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    file: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    subject: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    names: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    issuer: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<Timestamp>,
    /// Whole days, negative after the expiry.
    #[serde(skip_serializing_if = "Option::is_none")]
    days_left: Option<i64>,
    used_by: String,
}

/// The columns of the plain text.
const HEADINGS: [&str; 7] = ["FILE", "EXPIRES", "DAYS", "SUBJECT", "ISSUER", "USED BY", "NAMES"];

pub(super) fn run(args: &Args) -> Result<()> {
    let now = SystemClock::new().now();
    let entries = match &args.data_dir {
        Some(dir) => inventory(&pki_dir(dir)?, now)?,
        None => remote_entries(&remote::connection(args.kubeconfig.as_deref())?)?,
    };
    let rows: Vec<Row> = entries.into_iter().map(|entry| row(entry, now)).collect();
    match args.output {
        Some(Output::Json) => println!("{}", serde_json::to_string_pretty(&rows)?),
        None => print!("{}", table(&rows)),
    }
    let expiring = expiring(&rows, args.within, now);
    ensure!(
        expiring.is_empty(),
        "expired or to expire within {} days: {}",
        args.within,
        expiring.join(", ")
    );
    Ok(())
}

/// The certificates that a client of a server meets: its own, the CAs that it trusts, and those that the server presents.
fn remote_entries(connection: &Connection) -> Result<Vec<Entry>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let served = runtime?.block_on(Http::served_certificates(connection));
    let served = served.with_context(|| format!("cannot connect to {}", connection.server))?;
    let mut entries = Vec::new();
    for der in served {
        let info = CertificateInfo::from_der(&der)?;
        entries.push(Entry::of_certificate(&connection.server, "the API server", info));
    }
    let authority = connection.authority.as_deref().map(|pem| (pem, "trusted CA"));
    let own = match &connection.identity {
        Identity::Certificate { chain, .. } => Some((chain.as_slice(), "client certificate")),
        _ => None,
    };
    for (pem, used_by) in authority.into_iter().chain(own) {
        for info in CertificateInfo::all_from_pem(pem)? {
            entries.push(Entry::of_certificate("kubeconfig", used_by, info));
        }
    }
    Ok(entries)
}

fn row(entry: Entry, now: Timestamp) -> Row {
    let (subject, names, issuer) = entry.certificate.map_or_else(Default::default, |certificate| {
        (certificate.subject, certificate.names, certificate.issuer)
    });
    let seconds_left = |expires: Timestamp| expires.as_second() - now.as_second();
    Row {
        file: entry.file,
        subject,
        names,
        issuer,
        key_id: entry.key_id,
        expires: entry.expires,
        days_left: entry
            .expires
            .map(|expires| seconds_left(expires).div_euclid(86_400)),
        used_by: entry.used_by,
    }
}

/// What has expired or will within so many days.
fn expiring(rows: &[Row], days: i64, now: Timestamp) -> Vec<String> {
    let limit = now.saturating_add(SignedDuration::from_hours(days.saturating_mul(24)));
    let limit = limit.unwrap_or(Timestamp::MAX);
    let expires_soon = |row: &&Row| row.expires.is_some_and(|expires| expires <= limit);
    let expiring = rows.iter().filter(expires_soon);
    expiring
        .map(|row| format!("{} ({})", row.file, row.subject))
        .collect()
}

/// The rows in aligned columns.
fn table(rows: &[Row]) -> String {
    let mut cells = vec![HEADINGS.map(str::to_owned)];
    cells.extend(rows.iter().map(|row| {
        let subject = match &row.key_id {
            Some(id) => format!("key {id}"),
            None => row.subject.clone(),
        };
        let expires = row.expires.map(|expires| format!("{expires:.0}"));
        let days = row.days_left.map(|days| days.to_string());
        [
            row.file.clone(),
            expires.unwrap_or_else(|| "-".to_owned()),
            days.unwrap_or_else(|| "-".to_owned()),
            subject,
            row.issuer.clone(),
            row.used_by.clone(),
            row.names.join(","),
        ]
    }));
    let widths: Vec<usize> = (0..HEADINGS.len())
        .map(|at| cells.iter().map(|line| line[at].len()).max().unwrap_or_default())
        .collect();
    let line = |line: &[String; 7]| {
        let padded = line
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        let text = padded.collect::<Vec<_>>().join("   ");
        format!("{}\n", text.trim_end())
    };
    cells.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn rows(now: &str) -> Vec<Row> {
        let certificate = CertificateInfo {
            subject: "CN=setpoint".to_owned(),
            issuer: "CN=setpoint-ca".to_owned(),
            names: vec!["localhost".to_owned(), "127.0.0.1".to_owned()],
            not_before: at("2026-01-01T00:00:00Z"),
            not_after: at("2027-01-01T00:00:00Z"),
        };
        let key = Entry {
            file: "service-account.key".to_owned(),
            used_by: "signing service account tokens".to_owned(),
            certificate: None,
            key_id: Some("abc".to_owned()),
            expires: None,
        };
        let server = Entry::of_certificate("server.crt", "the API server", certificate);
        [server, key].map(|entry| row(entry, at(now))).into()
    }

    #[test]
    fn the_table_has_certificates_and_keys() {
        let expected = "\
FILE                  EXPIRES                DAYS   SUBJECT       ISSUER           USED BY                          NAMES
server.crt            2027-01-01T00:00:00Z   31     CN=setpoint   CN=setpoint-ca   the API server                   localhost,127.0.0.1
service-account.key   -                      -      key abc                        signing service account tokens
";
        assert_eq!(table(&rows("2026-12-01T00:00:00Z")), expected);
    }

    #[track_caller]
    fn check(now: &str, days: i64, expected: &[&str]) {
        assert_eq!(expiring(&rows(now), days, at(now)), expected, "{now}");
    }

    #[test]
    fn a_certificate_that_expires_within_the_given_days_is_reported() {
        check("2026-12-01T00:00:00Z", 30, &[]);
        check("2026-12-02T00:00:00Z", 30, &["server.crt (CN=setpoint)"]);
        check("2026-12-02T00:00:00Z", 29, &[]);
        check("2027-06-01T00:00:00Z", 0, &["server.crt (CN=setpoint)"]);
    }

    #[test]
    fn json_has_the_days_left_of_certificates_only() {
        let json = serde_json::to_value(rows("2027-01-02T12:00:00Z")).unwrap();
        assert_eq!(json[0]["daysLeft"], -2);
        assert_eq!(json[0]["names"][1], "127.0.0.1");
        assert_eq!(json[1].get("daysLeft"), None);
        assert_eq!(json[1]["keyId"], "abc");
    }
}
