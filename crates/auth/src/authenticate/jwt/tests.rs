//! Tokens of an OpenID provider in memory.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{ManualClock, now};
use crate::keys::SigningKey;

const ISSUER: &str = "https://issuer.example.com";
/// A throw-away 2048-bit RSA key, for the tests alone.
const RSA: &str = include_str!("../../keys/testdata/rsa.pem");
/// 2026-01-01T00:00:00Z.
const NOW: i64 = 1_767_225_600;

/// A provider that publishes keys, and counts how often they are fetched.
#[derive(Default)]
struct TestProvider {
    keys: Mutex<Vec<Value>>,
    key_fetches: Mutex<usize>,
    is_down: Mutex<bool>,
}

impl Fetch for Arc<TestProvider> {
    fn get<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Vec<u8>, String>> {
        let body = match url.strip_prefix(ISSUER) {
            _ if *self.is_down.lock() => Err("connection refused".to_owned()),
            Some("/.well-known/openid-configuration") => {
                Ok(json!({"issuer": ISSUER, "jwks_uri": format!("{ISSUER}/keys")}))
            }
            Some("/keys") => {
                *self.key_fetches.lock() += 1;
                Ok(json!({"keys": *self.keys.lock()}))
            }
            _ => Err(format!("{url} does not exist")),
        };
        Box::pin(async { body.map(|json| json.to_string().into_bytes()) })
    }
}

struct Fixture {
    provider: Arc<TestProvider>,
    clock: Arc<ManualClock>,
    authenticators: JwtAuthenticators,
}

fn fixture(config: JwtConfig) -> Fixture {
    let (provider, clock) = (
        Arc::new(TestProvider::default()),
        ManualClock::at("2026-01-01T00:00:00Z"),
    );
    let own = provider.clone();
    let connect: ConnectProvider = Arc::new(move |_| Ok(Arc::new(own.clone()) as Arc<dyn Fetch>));
    let algorithms = SIGNING_ALGORITHMS.iter().map(ToString::to_string).collect();
    let authenticators =
        JwtAuthenticators::new(vec!["api".to_owned()], algorithms, connect, clock.clone()).unwrap();
    authenticators.replace(vec![config]).unwrap();
    Fixture {
        provider,
        clock,
        authenticators,
    }
}

fn config() -> JwtConfig {
    let claim = |claim: &str, prefix: &str| PrefixedClaim {
        claim: claim.to_owned(),
        prefix: prefix.to_owned(),
    };
    JwtConfig {
        issuer_url: ISSUER.to_owned(),
        audiences: vec!["my-client".to_owned()],
        username: claim("sub", "oidc:"),
        groups: Some(claim("groups", "oidc:")),
        ..JwtConfig::default()
    }
}

fn generated() -> SigningKey {
    SigningKey::from_pem(&SigningKey::generate().unwrap()).unwrap()
}

fn claims(change: Value) -> Value {
    let mut claims = json!({"iss": ISSUER, "aud": "my-client", "sub": "jane", "exp": NOW + 60});
    for (claim, value) in change.as_object().unwrap() {
        claims[claim] = value.clone();
    }
    claims
}

fn sign(key: &SigningKey, claims: &Value) -> String {
    let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
    let header = json!({"alg": key.public().algorithm.name(), "kid": key.public().id});
    let signed = format!("{}.{}", encode(&header), encode(claims));
    let signature = URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes()).unwrap());
    format!("{signed}.{signature}")
}

impl Fixture {
    fn publish(&self, key: &SigningKey) {
        let key = serde_json::to_value(key.public().web_key()).unwrap();
        self.provider.keys.lock().push(key);
    }

    /// The user's name and groups, none, or the error.
    fn authenticate(&self, token: &str) -> Result<Option<String>, String> {
        let found = now(self.authenticators.authenticate(token, &["api".to_owned()]));
        let shown = |identity: TokenIdentity| {
            let user = identity.user;
            format!("{} [{}]", user.name, user.groups.join(" "))
        };
        found.map(|identity| identity.map(shown)).map_err(|error| error.0)
    }
}

#[track_caller]
fn check(config: JwtConfig, change: Value, expected: Result<&str, &str>) {
    let (fixture, key) = (fixture(config), generated());
    fixture.publish(&key);
    let found = fixture.authenticate(&sign(&key, &claims(change)));
    let expected = expected.map(|user| Some(user.to_owned())).map_err(str::to_owned);
    assert_eq!(found, expected);
}

#[test]
fn claims_become_a_user_with_prefixes() {
    check(config(), json!({}), Ok("oidc:jane []"));
    check(
        config(),
        json!({"groups": ["a", "b"]}),
        Ok("oidc:jane [oidc:a oidc:b]"),
    );
    check(config(), json!({"groups": "a"}), Ok("oidc:jane [oidc:a]"));
    check(config(), json!({"groups": null}), Ok("oidc:jane []"));
    check(config(), json!({"aud": ["x", "my-client"]}), Ok("oidc:jane []"));
}

#[test]
fn tokens_that_are_not_for_this_cluster_now_are_rejected() {
    let verify = |why: &str| format!("oidc: verify token: oidc: {why}");
    let audience = verify(r#"expected audience in ["my-client"] got ["x"]"#);
    check(config(), json!({"aud": "x"}), Err(&audience));
    let expired = verify("token is expired");
    check(config(), json!({"exp": NOW - 1}), Err(&expired));
    check(config(), json!({"exp": null}), Err(&expired));
    let early = verify("current time before the nbf (not before) time");
    check(config(), json!({"nbf": NOW + 61}), Err(&early));
    check(config(), json!({"nbf": NOW + 60}), Ok("oidc:jane []"));
}

#[test]
fn claims_of_other_types_are_rejected() {
    check(
        config(),
        json!({"sub": 7}),
        Err(r#"oidc: parse username claims "sub": it is not a string"#),
    );
    check(
        config(),
        json!({"groups": 7}),
        Err(r#"oidc: parse groups claim "groups": it is neither a string nor a list of strings"#),
    );
    check(
        config(),
        json!({"_claim_names": {"groups": "src"}}),
        Err("oidc: could not expand distributed claims: they are not supported"),
    );
}

#[test]
fn an_email_that_is_not_verified_is_rejected() {
    let mut email = config();
    email.username.claim = "email".to_owned();
    email.username.prefix = String::new();
    check(email.clone(), json!({"email": "j@x"}), Ok("j@x []"));
    check(
        email.clone(),
        json!({"email": "j@x", "email_verified": true}),
        Ok("j@x []"),
    );
    check(
        email,
        json!({"email": "j@x", "email_verified": false}),
        Err("oidc: email not verified"),
    );
}

#[test]
fn required_claims_must_have_their_values() {
    let mut required = config();
    required.required_claims = vec![("hd".to_owned(), "example.com".to_owned())];
    check(required.clone(), json!({"hd": "example.com"}), Ok("oidc:jane []"));
    check(
        required.clone(),
        json!({"hd": "other.com"}),
        Err("oidc: required claim hd value does not match. Got = other.com, want = example.com"),
    );
    check(
        required,
        json!({}),
        Err("oidc: required claim hd not present in ID token"),
    );
}

#[test]
fn tokens_of_other_issuers_and_other_texts_are_not_recognized() {
    let (fixture, key) = (fixture(config()), generated());
    for token in [
        sign(&key, &claims(json!({"iss": "https://other"}))),
        "secret".to_owned(),
    ] {
        assert_eq!(fixture.authenticate(&token), Ok(None));
    }
    assert_eq!(*fixture.provider.key_fetches.lock(), 0);
}

#[test]
fn a_token_is_for_the_audiences_of_the_server() {
    let (fixture, key) = (fixture(config()), generated());
    fixture.publish(&key);
    let token = sign(&key, &claims(json!({})));
    let found = now(fixture.authenticators.authenticate(&token, &["vault".to_owned()]));
    assert_eq!(found, Ok(None));
}

#[test]
fn rsa_and_elliptic_curve_keys_verify_and_no_key_verifies_another_algorithm() {
    let (fixture, rsa) = (fixture(config()), SigningKey::from_pem(RSA).unwrap());
    fixture.publish(&rsa);
    let token = sign(&rsa, &claims(json!({})));
    assert_eq!(fixture.authenticate(&token), Ok(Some("oidc:jane []".to_owned())));
    let none = token.replacen(
        token.split('.').next().unwrap(),
        &URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#),
        1,
    );
    let error = fixture.authenticate(&none).unwrap_err();
    assert!(error.contains("unsupported algorithm"), "{error}");
}

#[test]
fn keys_are_fetched_again_when_the_provider_rotates_them() {
    let (fixture, old, new) = (fixture(config()), generated(), generated());
    fixture.publish(&old);
    let valid = Ok(Some("oidc:jane []".to_owned()));
    let (old, new_token) = (sign(&old, &claims(json!({}))), sign(&new, &claims(json!({}))));
    assert_eq!(fixture.authenticate(&old), valid);
    assert_eq!(fixture.authenticate(&old), valid);
    assert_eq!(*fixture.provider.key_fetches.lock(), 1);
    fixture.publish(&new);
    assert_eq!(fixture.authenticate(&new_token), valid);
    assert_eq!(*fixture.provider.key_fetches.lock(), 2);
}

#[test]
fn a_forged_token_is_rejected_with_the_keys_of_the_provider() {
    let (fixture, key) = (fixture(config()), generated());
    fixture.publish(&key);
    let token = sign(&generated(), &claims(json!({})));
    assert_eq!(
        fixture.authenticate(&token),
        Err(
            "oidc: verify token: oidc: failed to verify signature: failed to verify id token signature"
                .to_owned()
        )
    );
}

#[test]
fn a_provider_that_was_down_is_tried_again_after_a_while() {
    let (fixture, key) = (fixture(config()), generated());
    fixture.publish(&key);
    let token = sign(&key, &claims(json!({})));
    *fixture.provider.is_down.lock() = true;
    let down = "oidc: verify token: oidc: authenticator not initialized: connection refused".to_owned();
    assert_eq!(fixture.authenticate(&token), Err(down.clone()));
    *fixture.provider.is_down.lock() = false;
    assert_eq!(fixture.authenticate(&token), Err(down));
    fixture.clock.advance(10);
    assert_eq!(fixture.authenticate(&token), Ok(Some("oidc:jane []".to_owned())));
}

#[test]
fn new_issuers_replace_the_old_ones_only_if_they_respond() {
    let (fixture, key) = (fixture(config()), generated());
    fixture.publish(&key);
    let token = sign(&key, &claims(json!({})));
    let elsewhere = JwtConfig {
        issuer_url: "https://elsewhere".to_owned(),
        ..config()
    };
    assert!(now(fixture.authenticators.replace_when_healthy(vec![elsewhere])).is_err());
    assert!(fixture.authenticate(&token).is_ok_and(|user| user.is_some()));
    now(fixture.authenticators.replace_when_healthy(Vec::new())).unwrap();
    assert_eq!(fixture.authenticate(&token), Ok(None));
}

/// The configuration of one authenticator with these claim mappings and further lines.
fn with_expressions(mappings: &str, lines: &str) -> JwtConfig {
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer: {{url: '{ISSUER}', audiences: [my-client]}}\n  claimMappings: {mappings}\n{lines}"
    );
    let mut config = AuthenticationConfig::parse(&text, &[]).unwrap();
    config.jwt.remove(0)
}

#[test]
fn expressions_compute_the_user() {
    let config = || {
        with_expressions(
            "{username: {expression: \"'x:' + claims.sub\"}, groups: {expression: 'claims.roles.map(r, r.name)'}}",
            "",
        )
    };
    let roles = json!([{"name": "a"}, {"name": ""}, {"name": "b"}]);
    check(config(), json!({"roles": roles}), Ok("x:jane [a b]"));
    check(
        config(),
        json!({}),
        Err(
            "oidc: error evaluating group claim expression: expression 'claims.roles.map(r, r.name)' resulted in error: no such key: roles",
        ),
    );
    check(
        config(),
        json!({"roles": [{"name": 1}]}),
        Err(
            "oidc: error evaluating group claim expression: expression must return a string or a list of strings",
        ),
    );
    let number = || with_expressions("{username: {expression: claims.n}}", "");
    check(
        number(),
        json!({"n": 1}),
        Err(
            "oidc: error evaluating username claim expression: username claim expression must return a string",
        ),
    );
    check(
        number(),
        json!({"n": ""}),
        Err("oidc: empty username via CEL expression is not allowed"),
    );
}

#[test]
fn rules_for_claims_and_users_are_checked() {
    let config = || {
        with_expressions(
            "{username: {expression: claims.sub}}",
            "  claimValidationRules: [{expression: claims.n == 1, message: n must be 1}]\n  userValidationRules: [{expression: \"!user.username.startsWith('system:')\", message: reserved}]\n",
        )
    };
    check(config(), json!({"n": 1}), Ok("jane []"));
    check(
        config(),
        json!({"n": 2}),
        Err(
            "oidc: error evaluating claim validation expression: validation expression 'claims.n == 1' failed: n must be 1",
        ),
    );
    check(
        config(),
        json!({"n": 1, "sub": "system:admin"}),
        Err(
            "oidc: error evaluating user info validation rule: validation expression '!user.username.startsWith('system:')' failed: reserved",
        ),
    );
}
