//! Repositories of packages: an index of versions, and tarballs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use setpoint_api::{Clock, SystemClock};
use setpoint_client::Http;
use setpoint_client::kubeconfig::Connection;
use setpoint_kuttl::manifest;
use sha2::{Digest, Sha256};

use super::files::PackageFiles;
use super::{semver, tarball};
use crate::api::Maintainer;

/// Bundles of the certificate authorities that a system trusts.
const AUTHORITIES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
];

/// `index.yaml` of a repository. The versions of an operator are in descending order.
#[allow(missing_docs, reason = "the fields are those of the file")]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Index {
    pub api_version: String,
    pub entries: BTreeMap<String, Vec<PackageVersion>>,
    pub generated: Option<Timestamp>,
}

/// A version of a package in an index.
#[allow(missing_docs, reason = "the fields are those of the file")]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PackageVersion {
    pub name: String,
    pub operator_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub maintainers: Vec<Maintainer>,
    pub urls: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub digest: String,
}

impl Index {
    /// Parses an index.
    pub fn parse(text: &str) -> Result<Self> {
        let value =
            manifest::parse_value(text).map_err(|error| anyhow!("unmarshalling index file: {error}"))?;
        let mut index: Self = serde_json::from_value(value).context("unmarshalling index file")?;
        if index.api_version.is_empty() {
            bail!("validating index file: no API version defined");
        }
        index.sort();
        Ok(index)
    }

    /// The index of the tarballs of a directory, which are served under a URL.
    pub fn of_directory(dir: &Path, url: &str, now: Timestamp) -> Result<Self> {
        let mut index = Self {
            api_version: "v1".to_owned(),
            generated: Some(now),
            ..Self::default()
        };
        for entry in std::fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "tgz") {
                continue;
            }
            let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let files = PackageFiles::parse(&tarball::unpack(&bytes)?);
            let files = files.with_context(|| format!("invalid package {}", path.display()))?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let version = PackageVersion {
                name: files.operator.name.clone(),
                operator_version: files.operator.operator_version,
                app_version: files.operator.app_version,
                description: files.operator.description,
                maintainers: files.operator.maintainers,
                urls: vec![format!("{}/{name}", url.trim_end_matches('/'))],
                digest: crate::md5::hex(&Sha256::digest(&bytes)),
            };
            index
                .entries
                .entry(files.operator.name)
                .or_default()
                .push(version);
        }
        if index.entries.is_empty() {
            bail!("no packages discovered");
        }
        index.sort();
        Ok(index)
    }

    /// The newest version of an operator that matches; an empty version matches all.
    pub fn find_first(&self, name: &str, app_version: &str, version: &str) -> Result<&PackageVersion> {
        let versions = self.entries.get(name).filter(|versions| !versions.is_empty());
        let versions = versions.with_context(|| format!("no operator found for: {name}"))?;
        let matches = |wanted: &str, own: &str| wanted.is_empty() || wanted == own;
        let found = versions
            .iter()
            .find(|own| matches(app_version, &own.app_version) && matches(version, &own.operator_version));
        found.with_context(|| match version {
            "" => format!("no operator version found for {name}"),
            _ => format!("no operator version found for {name}-{version}"),
        })
    }

    /// The versions of the operators whose names contain a text: all of them, or the newest of each.
    pub fn search(&self, text: &str, has_all_versions: bool) -> Vec<&PackageVersion> {
        let entries = self.entries.iter().filter(|(name, _)| name.contains(text));
        let count = if has_all_versions { usize::MAX } else { 1 };
        entries
            .flat_map(|(_, versions)| versions.iter().take(count))
            .collect()
    }

    fn sort(&mut self) {
        for versions in self.entries.values_mut() {
            versions.sort_by(|left, right| {
                let by_app = semver::compare(&right.app_version, &left.app_version);
                by_app.then_with(|| semver::compare(&right.operator_version, &left.operator_version))
            });
        }
    }
}

/// The bytes at a URL. Redirects are not followed.
pub async fn download(url: &str) -> Result<Vec<u8>> {
    let (scheme, rest) = url
        .split_once("://")
        .with_context(|| format!("invalid URL {url}"))?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let own = std::env::var("SSL_CERT_FILE").ok();
    let mut authorities = own.as_deref().into_iter().chain(AUTHORITIES.iter().copied());
    let connection = Connection {
        server: format!("{scheme}://{host}"),
        authority: authorities.find_map(|path| std::fs::read(path).ok()),
        ..Connection::default()
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let http = Http::with_clock(&connection, clock)?;
    let bytes = http.get(&format!("/{path}")).await;
    let bytes = bytes.map_err(|status| anyhow!("getting {url}: {}", status.message))?;
    Ok(bytes.to_vec())
}

/// Downloads a package by its name and versions, from the first of its URLs that responds.
pub async fn download_package(repository: &str, name: &str, versions: [&str; 2]) -> Result<Vec<u8>> {
    let index = download_index(repository).await?;
    let package = index.find_first(name, versions[0], versions[1]);
    let package = package.with_context(|| format!("getting {name} in index file"))?;
    let mut error = anyhow!("package {name} has no URL");
    for url in &package.urls {
        match download(url).await {
            Ok(bytes) if !is_intact(&bytes, &package.digest) => error = anyhow!("{url} has another digest"),
            Ok(bytes) => return Ok(bytes),
            Err(failed) => error = failed.context("unable to read package"),
        }
    }
    Err(error)
}

/// Downloads the index of a repository.
pub async fn download_index(repository: &str) -> Result<Index> {
    let url = format!("{}/index.yaml", repository.trim_end_matches('/'));
    let bytes = download(&url)
        .await
        .context("could not download repository index file")?;
    Index::parse(&String::from_utf8_lossy(&bytes))
}

fn is_intact(bytes: &[u8], digest: &str) -> bool {
    digest.is_empty() || crate::md5::hex(&Sha256::digest(bytes)) == digest
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: &str = "
apiVersion: v1
entries:
  db:
  - {name: db, operatorVersion: 1.0.0, appVersion: '5.0', urls: [a]}
  - {name: db, operatorVersion: 1.1.0, appVersion: '5.0', urls: [b]}
  - {name: db, operatorVersion: 0.9.0, appVersion: '10.0', urls: [c]}
  web:
  - {name: web, operatorVersion: 0.1.0, urls: [d]}
";

    #[track_caller]
    fn check(name: &str, versions: [&str; 2], expected: Result<&str, &str>) {
        let index = Index::parse(INDEX).unwrap();
        let found = index.find_first(name, versions[0], versions[1]);
        let found = found
            .map(|own| own.urls[0].as_str())
            .map_err(|error| error.to_string());
        assert_eq!(found.as_deref().map_err(String::as_str), expected);
    }

    /// TO7
    #[test]
    fn the_newest_matching_version_is_selected() {
        check("db", ["", ""], Ok("c"));
        check("db", ["5.0", ""], Ok("b"));
        check("db", ["", "1.0.0"], Ok("a"));
        check("db", ["", "2.0.0"], Err("no operator version found for db-2.0.0"));
        check("nope", ["", ""], Err("no operator found for: nope"));
    }

    /// TO7
    #[test]
    fn a_search_matches_a_part_of_the_name() {
        let index = Index::parse(INDEX).unwrap();
        assert_eq!(index.search("b", false).len(), 2);
        assert_eq!(index.search("d", true).len(), 3);
        assert_eq!(index.search("x", true).len(), 0);
    }

    /// TO7
    #[test]
    fn a_directory_of_tarballs_has_an_index() {
        let dir = tempfile::tempdir().unwrap();
        let contents = [
            ("operator.yaml", "name: db\noperatorVersion: 1.0.0\n"),
            ("params.yaml", "parameters: []\n"),
        ];
        let contents = contents.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
        std::fs::write(
            dir.path().join("db-1.0.0.tgz"),
            tarball::pack(&contents.into()).unwrap(),
        )
        .unwrap();
        let index = Index::of_directory(dir.path(), "http://127.0.0.1/", Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(index.entries["db"][0].urls, ["http://127.0.0.1/db-1.0.0.tgz"]);
        assert_eq!(index.entries["db"][0].digest.len(), 64);
    }
}
