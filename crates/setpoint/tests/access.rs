//! Authentication and authorization as operators configure them: flags, OpenID providers and webhooks, with a real process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;
#[path = "cluster/https_server.rs"]
mod https_server;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cluster::Cluster;
use https_server::HttpsServer;
use serde_json::{Value, json};
use setpoint_api::{Clock, SystemClock};
use setpoint_auth::Issuer;
use setpoint_auth::keys::SigningKey;
use setpoint_auth::token::discovery;
use setpoint_client::Http;
use setpoint_client::kubeconfig::{Connection, Identity};
use tempfile::TempDir;

const WHOAMI: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

fn http(cluster: &Cluster, identity: Identity) -> Http {
    let connection = Connection {
        identity,
        ..cluster.connection()
    };
    Http::new(&connection).unwrap()
}

fn with_token(cluster: &Cluster, token: &str) -> Http {
    http(cluster, Identity::Token(token.to_owned()))
}

/// The user and groups of the caller, or the code of the error.
async fn whoami(http: &Http) -> Result<(String, Value), u16> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let body = http.post(WHOAMI, review.to_string()).await;
    let review: Value = serde_json::from_slice(&body.map_err(|status| status.code)?).unwrap();
    let user = &review["status"]["userInfo"];
    Ok((
        user["username"].as_str().unwrap().to_owned(),
        user["groups"].clone(),
    ))
}

/// The code of the response to a GET; 200 if it succeeds.
async fn code(http: &Http, path: &str) -> u16 {
    match http.get(path).await {
        Ok(_) => 200,
        Err(status) => status.code,
    }
}

fn write(dir: &TempDir, name: &str, text: &str) -> String {
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// The standard error of a server that does not start with these flags.
fn fail(flags: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_setpoint"))
        .args(["up", "--memory", "--listen", "127.0.0.1:0"])
        .args(flags)
        .output()
        .unwrap();
    assert!(!output.status.success(), "the server started");
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test]
async fn a_server_starts_with_the_flags_of_kubernetes_kubectl_suite() {
    let dir = tempfile::tempdir().unwrap();
    let key = write(&dir, "sa.key", &SigningKey::generate().unwrap());
    let tokens = write(&dir, "tokens.csv", "admin-token,admin,1\n");
    let disabled = "ServiceAccount,MutatingAdmissionWebhook,ValidatingAdmissionWebhook,DefaultStorageClass";
    let cluster = Cluster::new(&[
        "--memory",
        "--authorization-mode=RBAC,AlwaysAllow",
        &format!("--disable-admission-plugins={disabled}"),
        &format!("--service-account-key-file={key}"),
        "--service-account-lookup=true",
        "--service-account-issuer=https://kubernetes.default.svc",
        &format!("--service-account-signing-key-file={key}"),
        &format!("--token-auth-file={tokens}"),
        "--version=v1.37.0-custom",
        "--version-git-commit=abc",
    ]);
    let admin = with_token(&cluster, "admin-token");
    assert_eq!(code(&admin, "/api/v1/secrets").await, 200);
    assert_eq!(code(&http(&cluster, Identity::Anonymous), "/api").await, 401);
    let version: Value = serde_json::from_slice(&admin.get("/version").await.unwrap()).unwrap();
    assert_eq!(
        (
            &version["gitVersion"],
            &version["gitCommit"],
            &version["gitTreeState"]
        ),
        (&json!("v1.37.0-custom"), &json!("abc"), &json!("clean"))
    );
}

#[test]
fn flags_that_cannot_be_used_are_named() {
    for (flags, expected) in [
        (
            ["--authorization-mode", "ABAC"],
            "authorization-mode \"ABAC\" is not supported",
        ),
        (
            ["--authorization-mode", "Magic"],
            "authorization-mode \"Magic\" is not a valid mode",
        ),
        (
            ["--authorization-mode", "RBAC,RBAC"],
            "has mode specified more than once",
        ),
        (
            ["--authorization-mode", "Webhook"],
            "authorization config file not passed",
        ),
        (
            ["--enable-admission-plugins", "ImagePolicyWebhook"],
            "is not built into this server",
        ),
        (
            ["--version", "v1.36.0"],
            "must match major/minor/patch of default version",
        ),
        (
            ["--service-account-max-token-expiration", "30m"],
            "must be between 1 hour and 2^32 seconds",
        ),
    ] {
        let error = fail(&flags);
        assert!(error.contains(expected), "{flags:?}: {error}");
    }
}

#[tokio::test]
async fn anonymous_requests_may_be_off_or_limited_to_paths() {
    let cluster = Cluster::new(&["--memory", "--anonymous-auth=false"]);
    let anonymous = http(&cluster, Identity::Anonymous);
    assert_eq!(code(&anonymous, "/livez").await, 401);
    let dir = tempfile::tempdir().unwrap();
    let config = write(
        &dir,
        "authentication.yaml",
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n\
         anonymous: {enabled: true, conditions: [{path: /livez}]}\n",
    );
    let cluster = Cluster::new(&["--memory", "--authentication-config", &config]);
    let anonymous = http(&cluster, Identity::Anonymous);
    assert_eq!(code(&anonymous, "/livez").await, 200);
    assert_eq!(code(&anonymous, "/readyz").await, 401);
}

#[tokio::test]
async fn a_token_of_an_openid_provider_names_its_user() {
    let key = SigningKey::generate().unwrap();
    let issuer = |url: &str| Issuer::new(url, SigningKey::from_pem(&key).unwrap(), Vec::new());
    let provider = HttpsServer::start(|url| {
        let (issuer, url) = (issuer(url), url.to_owned());
        Box::new(move |path, _| match path {
            "/.well-known/openid-configuration" => {
                let keys = format!("{url}/keys");
                (200, json!({"issuer": url, "jwks_uri": keys}).to_string())
            }
            "/keys" => (200, String::from_utf8(discovery::keys(&issuer)).unwrap()),
            _ => (404, String::new()),
        })
    });
    let dir = tempfile::tempdir().unwrap();
    let authority = write(&dir, "ca.crt", &provider.authority);
    let cluster = Cluster::new(&[
        "--memory",
        "--oidc-issuer-url",
        &provider.url,
        "--oidc-client-id=kubernetes",
        "--oidc-ca-file",
        &authority,
        "--oidc-groups-claim=groups",
        "--oidc-groups-prefix=oidc:",
        "--oidc-username-prefix=-",
        "--oidc-signing-algs=ES256",
    ]);
    let expires = SystemClock::new().now().as_second() + 60;
    let claims =
        json!({"iss": provider.url, "aud": "kubernetes", "sub": "jane", "groups": ["devs"], "exp": expires});
    let token = issuer(&provider.url).sign(&claims).unwrap();
    let user = whoami(&with_token(&cluster, &token)).await;
    assert_eq!(
        user,
        Ok(("jane".to_owned(), json!(["oidc:devs", "system:authenticated"])))
    );
    let expired = json!({"iss": provider.url, "aud": "kubernetes", "sub": "jane", "exp": 1});
    let expired = issuer(&provider.url).sign(&expired).unwrap();
    assert_eq!(whoami(&with_token(&cluster, &expired)).await, Err(401));
}

#[tokio::test]
async fn a_webhook_authenticates_tokens() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let webhook = HttpsServer::start(|_| {
        Box::new(move |path, body| {
            assert!(path.starts_with("/authenticate"), "{path}");
            counted.fetch_add(1, Ordering::Relaxed);
            let review: Value = serde_json::from_str(body).unwrap();
            let known = review["spec"]["token"] == "hook-token";
            let status = match known {
                true => json!({"authenticated": true, "user": {"username": "hooked", "groups": ["g"]}}),
                false => json!({"authenticated": false}),
            };
            let response =
                json!({"apiVersion": review["apiVersion"], "kind": "TokenReview", "status": status});
            (200, response.to_string())
        })
    });
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = webhook
        .kubeconfig(dir.path(), "/authenticate")
        .display()
        .to_string();
    let cluster = Cluster::new(&[
        "--memory",
        "--authentication-token-webhook-config-file",
        &kubeconfig,
        "--authentication-token-webhook-version=v1",
    ]);
    let hooked = Ok(("hooked".to_owned(), json!(["g", "system:authenticated"])));
    for _ in 0..2 {
        assert_eq!(whoami(&with_token(&cluster, "hook-token")).await, hooked);
    }
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!(whoami(&with_token(&cluster, "other")).await, Err(401));
}

#[tokio::test]
async fn a_webhook_authorizes_requests_in_the_order_of_the_configuration() {
    let webhook = HttpsServer::start(|_| {
        Box::new(move |_, body| {
            let review: Value = serde_json::from_str(body).unwrap();
            let attributes = &review["spec"]["resourceAttributes"];
            let status = match (attributes["resource"].as_str(), attributes["verb"].as_str()) {
                (Some("secrets"), _) => json!({"allowed": false, "denied": true, "reason": "no secrets"}),
                (Some("configmaps"), Some("list")) => json!({"allowed": true}),
                _ => json!({"allowed": false}),
            };
            (200, json!({"status": status}).to_string())
        })
    });
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = webhook.kubeconfig(dir.path(), "/authorize").display().to_string();
    let tokens = write(&dir, "tokens.csv", "jane-token,jane,1\n");
    let config = write(
        &dir,
        "authorization.yaml",
        &format!(
            "apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: policy
  webhook:
    timeout: 3s
    subjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo: {{type: KubeConfigFile, kubeConfigFile: {kubeconfig}}}
- {{type: Node, name: node}}
- {{type: RBAC, name: rbac}}
"
        ),
    );
    let cluster = Cluster::new(&[
        "--memory",
        "--token-auth-file",
        &tokens,
        "--authorization-config",
        &config,
    ]);
    let jane = with_token(&cluster, "jane-token");
    assert_eq!(code(&jane, "/api/v1/configmaps").await, 200);
    assert_eq!(code(&jane, "/api/v1/pods").await, 403);
    let denied = jane.get("/api/v1/secrets").await.unwrap_err();
    assert!(denied.message.ends_with(": no secrets"), "{denied}");
    // RBAC allows every authenticated user to read discovery.
    assert_eq!(code(&jane, "/api").await, 200);
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
        "user": "bob", "resourceAttributes": {"resource": "secrets", "verb": "get"}}});
    let admin = Http::new(&cluster.connection()).unwrap();
    let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let review = admin.post(reviews, review.to_string()).await.unwrap();
    let review: Value = serde_json::from_slice(&review).unwrap();
    assert_eq!(
        review["status"],
        json!({"allowed": false, "denied": true, "reason": "no secrets"})
    );
}

#[tokio::test]
async fn certificates_of_another_ca_name_users_and_proxies() {
    let dir = tempfile::tempdir().unwrap();
    let (users, proxies) = (TestCa::new("users-ca"), TestCa::new("proxies-ca"));
    let cluster = Cluster::new(&[
        "--memory",
        "--client-ca-file",
        &write(&dir, "users.crt", &users.pem),
        "--requestheader-client-ca-file",
        &write(&dir, "proxies.crt", &proxies.pem),
        "--requestheader-allowed-names=proxy",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
    ]);
    let user = whoami(&http(&cluster, users.sign("jane"))).await;
    assert_eq!(user, Ok(("jane".to_owned(), json!(["system:authenticated"]))));
    // Without the header a proxy is no user.
    assert_eq!(whoami(&http(&cluster, proxies.sign("proxy"))).await, Err(401));
    let admin = Http::new(&cluster.connection()).unwrap();
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let map: Value = serde_json::from_slice(&admin.get(path).await.unwrap()).unwrap();
    let bundle = map["data"]["client-ca-file"].as_str().unwrap();
    assert!(bundle.contains(users.pem.trim()) && bundle.matches("BEGIN CERTIFICATE").count() == 2);
    assert_eq!(
        map["data"]["requestheader-allowed-names"],
        r#"["front-proxy-client","proxy"]"#
    );
}

/// A CA that signs client certificates.
struct TestCa {
    pem: String,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl TestCa {
    fn new(name: &str) -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            pem,
            issuer: rcgen::Issuer::new(params, key),
        }
    }

    fn sign(&self, name: &str) -> Identity {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity::Certificate {
            chain: certificate.pem().into_bytes(),
            key: key.serialize_pem().into_bytes(),
        }
    }
}
