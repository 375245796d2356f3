//! Exec credential plugins: commands that print an ExecCredential.
//!
//! Format: <https://kubernetes.io/docs/reference/config-api/client-authentication.v1/>.

use std::process::Stdio;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::process::Command;

/// The `exec` section of a kubeconfig user.
#[allow(missing_docs, reason = "the fields are those of the file")]
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecConfig {
    pub api_version: String,
    pub command: String,
    #[serde(default)]
    pub args: Option<Vec<String>>,
    #[serde(default)]
    pub env: Option<Vec<EnvVar>>,
    #[serde(default)]
    pub install_hint: Option<String>,
    #[serde(default)]
    pub provide_cluster_info: bool,
    #[serde(default)]
    pub interactive_mode: Option<String>,
}

/// An environment variable of the plugin.
#[allow(missing_docs, reason = "the fields are those of the file")]
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct EnvVar {
    pub name: String,
    pub value: String,
}

/// The cluster in the request to a plugin (`provideClusterInfo`).
#[allow(missing_docs, reason = "the fields are those of the file")]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ClusterInfo {
    pub server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_server_name: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub insecure_skip_tls_verify: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_authority_data: Option<String>,
}

/// The credential that a plugin printed.
#[derive(Clone, PartialEq, Eq)]
pub struct ExecCredential {
    /// A bearer token.
    pub token: Option<String>,
    /// Certificate chain and key, PEM.
    pub certificate: Option<(String, String)>,
    /// When the plugin is run again; if absent, only after the server responds 401.
    pub expires_at: Option<Timestamp>,
}

/// Why a plugin gave no credential.
#[allow(missing_docs, reason = "the messages document them")]
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    #[error("exec plugin {command:?} cannot be run: {source}{hint}")]
    Run {
        command: String,
        source: std::io::Error,
        hint: String,
    },
    #[error("exec plugin {command:?} ended with {status}")]
    Failed {
        command: String,
        status: std::process::ExitStatus,
    },
    #[error("exec plugin {command:?} needs a terminal, and there is none")]
    Interactive { command: String },
    #[error("cannot decode the output of exec plugin {command:?}: {source}")]
    Decode {
        command: String,
        source: serde_json::Error,
    },
    #[error("exec plugin is configured to use API version {expected}, plugin returned version {returned}")]
    Version { expected: String, returned: String },
    #[error("exec plugin {command:?} printed {what}")]
    Incomplete { command: String, what: &'static str },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredentialObject {
    #[serde(default)]
    api_version: String,
    status: Option<ExecCredentialStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct ExecCredentialStatus {
    expiration_timestamp: Option<Timestamp>,
    token: String,
    client_certificate_data: String,
    client_key_data: String,
}

// === impl ExecConfig ===

impl ExecConfig {
    /// Runs the command and decodes its output.
    pub async fn run(&self, cluster: &ClusterInfo) -> Result<ExecCredential, ExecError> {
        if self.interactive_mode.as_deref() == Some("Always") {
            let command = self.command.clone();
            return Err(ExecError::Interactive { command });
        }
        let env = self.env.iter().flatten().map(|var| (&var.name, &var.value));
        let output = Command::new(&self.command)
            .args(self.args.iter().flatten())
            .envs(env)
            .env("KUBERNETES_EXEC_INFO", self.request(cluster))
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .output()
            .await
            .map_err(|source| self.cannot_run(source))?;
        if !output.status.success() {
            let (command, status) = (self.command.clone(), output.status);
            return Err(ExecError::Failed { command, status });
        }
        self.read(&output.stdout)
    }

    /// The value of `KUBERNETES_EXEC_INFO`.
    fn request(&self, cluster: &ClusterInfo) -> String {
        let mut spec = serde_json::json!({"interactive": false});
        if self.provide_cluster_info {
            spec["cluster"] = serde_json::to_value(cluster).unwrap_or(Value::Null);
        }
        let request = serde_json::json!({
            "kind": "ExecCredential",
            "apiVersion": self.api_version,
            "spec": spec,
        });
        request.to_string()
    }

    fn read(&self, stdout: &[u8]) -> Result<ExecCredential, ExecError> {
        let credential: ExecCredentialObject =
            setpoint_api::json::from_slice(stdout).map_err(|source| ExecError::Decode {
                command: self.command.clone(),
                source,
            })?;
        if credential.api_version != self.api_version {
            return Err(ExecError::Version {
                expected: self.api_version.clone(),
                returned: credential.api_version,
            });
        }
        let status = credential.status.ok_or_else(|| self.incomplete("no status"))?;
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let (chain, key) = (some(status.client_certificate_data), some(status.client_key_data));
        let certificate = match (chain, key) {
            (Some(chain), Some(key)) => Some((chain, key)),
            (None, None) => None,
            _ => return Err(self.incomplete("only a certificate or a key, not both")),
        };
        let token = some(status.token);
        if token.is_none() && certificate.is_none() {
            return Err(self.incomplete("neither a token nor a certificate"));
        }
        Ok(ExecCredential {
            token,
            certificate,
            expires_at: status.expiration_timestamp,
        })
    }

    fn cannot_run(&self, source: std::io::Error) -> ExecError {
        let hint = self.install_hint.as_deref().filter(|hint| !hint.is_empty());
        ExecError::Run {
            command: self.command.clone(),
            source,
            hint: hint.map_or(String::new(), |hint| format!("\n\n{hint}")),
        }
    }

    fn incomplete(&self, what: &'static str) -> ExecError {
        let command = self.command.clone();
        ExecError::Incomplete { command, what }
    }
}

// === impl ExecCredential ===

/// Secrets are not printed.
impl std::fmt::Debug for ExecCredential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExecCredential")
            .field("token", &self.token.is_some())
            .field("certificate", &self.certificate.is_some())
            .field("expires_at", &self.expires_at)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin(script: &str) -> ExecConfig {
        let exec = serde_json::json!({
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "/bin/sh",
            "args": ["-c", script],
            "env": [{"name": "WHO", "value": "me"}],
            "provideClusterInfo": true,
            "installHint": "get a shell",
        });
        serde_json::from_value(exec).unwrap()
    }

    async fn run(script: &str) -> Result<ExecCredential, String> {
        let cluster = ClusterInfo {
            server: "https://a:1".to_owned(),
            ..ClusterInfo::default()
        };
        plugin(script)
            .run(&cluster)
            .await
            .map_err(|error| error.to_string())
    }

    fn credential(status: &str) -> String {
        format!(
            r#"echo '{{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{status}}}'"#
        )
    }

    #[tokio::test]
    async fn a_plugin_prints_a_token_and_its_expiration() {
        let script = credential(r#"{"token":"t","expirationTimestamp":"2030-01-02T03:04:05Z"}"#);
        let printed = run(&script).await.unwrap();
        assert_eq!(printed.token.as_deref(), Some("t"));
        assert_eq!(printed.expires_at.unwrap().to_string(), "2030-01-02T03:04:05Z");
    }

    #[tokio::test]
    async fn a_plugin_knows_its_environment_and_the_server() {
        let script =
            r#"case "$WHO $KUBERNETES_EXEC_INFO" in *'me {'*'"server":"https://a:1"'*) ok=yes;; esac; "#;
        let script = format!("{script}{}", credential(r#"{"token":"'$ok'"}"#));
        assert_eq!(run(&script).await.unwrap().token.as_deref(), Some("yes"));
    }

    #[tokio::test]
    async fn a_plugin_may_print_a_certificate() {
        let script = credential(r#"{"clientCertificateData":"C","clientKeyData":"K"}"#);
        let printed = run(&script).await.unwrap();
        assert_eq!(printed.certificate, Some(("C".to_owned(), "K".to_owned())));
    }

    async fn check_error(script: &str, expected: &str) {
        let error = run(script).await.unwrap_err();
        assert!(error.contains(expected), "{error}");
    }

    #[tokio::test]
    async fn a_plugin_without_a_credential_is_an_error() {
        check_error("exit 3", "ended with exit status: 3").await;
        check_error("echo nonsense", "cannot decode").await;
        check_error(&credential("{}"), "neither a token nor a certificate").await;
        check_error(&credential(r#"{"clientKeyData":"K"}"#), "not both").await;
        check_error(
            r#"echo '{"apiVersion":"client.authentication.k8s.io/v1beta1"}'"#,
            "plugin returned version client.authentication.k8s.io/v1beta1",
        )
        .await;
        let mut absent = plugin("");
        absent.command = "/no/such/plugin".to_owned();
        let error = absent.run(&ClusterInfo::default()).await.unwrap_err().to_string();
        assert!(error.ends_with("get a shell"), "{error}");
    }
}
