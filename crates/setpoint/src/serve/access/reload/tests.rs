//! Changed files, and the authorizers that they configure afterwards.

use setpoint_api::{SystemClock, User};
use setpoint_auth::authenticate::jwt::{ConnectProvider, SIGNING_ALGORITHMS};
use setpoint_auth::authorize::{AccessTarget, Attributes, Authorize, ChainBuilder, Rbac};
use setpoint_registry::WatchCaches;
use setpoint_runtime::Caches;
use setpoint_store::Store;

use super::*;

const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: ";

fn authorization(authorizers: &str) -> String {
    format!("{HEAD}AuthorizationConfiguration\nauthorizers: {authorizers}\n")
}

fn caches() -> Arc<dyn Caches> {
    let store = Store::memory(setpoint_store::Config::new(Arc::new(|| 0)));
    WatchCaches::open(store, Arc::new(setpoint_kinds::builtin()))
}

fn is_allowed(authorizer: &ReloadableAuthorizer) -> bool {
    let attributes = Attributes::new("get", AccessTarget::Path("/metrics"));
    let decision = authorizer.authorize(&User::default(), &attributes).wait();
    decision.is_allowed()
}

#[tokio::test]
async fn a_changed_authorization_file_is_used_and_an_invalid_one_is_not() {
    let (caches, clock): (_, Arc<dyn Clock>) = (caches(), Arc::new(SystemClock::new()));
    let path = tempfile::NamedTempFile::new().unwrap();
    let first = authorization("[{type: RBAC, name: rbac}]");
    std::fs::write(path.path(), &first).unwrap();
    let configs = config::parse(&first).unwrap();
    let builder = ChainBuilder::new(&caches, Arc::new(Rbac::new(caches.clone())));
    let built = authorizers::build(&configs, &clock).unwrap();
    let authorizer = Arc::new(ReloadableAuthorizer::new(builder, built));
    let mut file = AuthorizationFile {
        file: WatchedFile::open(path.path()),
        first: configs,
        authorizer: authorizer.clone(),
    };
    assert!(!file.reload(&clock).unwrap());
    for (authorizers, expected, allowed) in [
        (
            "[{type: RBAC, name: rbac}, {type: AlwaysAllow, name: alwaysallow}]",
            Some(true),
            true,
        ),
        ("[{type: AlwaysDeny, name: alwaysdeny}]", None, true),
        ("[]", None, true),
        ("[{type: RBAC, name: rbac}]", Some(true), false),
    ] {
        std::fs::write(path.path(), authorization(authorizers)).unwrap();
        assert_eq!(file.reload(&clock).ok(), expected, "{authorizers}");
        assert_eq!(is_allowed(&authorizer), allowed, "{authorizers}");
        assert_eq!(file.reload(&clock).ok(), Some(false), "{authorizers}");
    }
}

#[tokio::test]
async fn the_anonymous_section_of_an_authentication_file_must_stay() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let path = tempfile::NamedTempFile::new().unwrap();
    let connect: ConnectProvider = Arc::new(|_| Err("no provider is configured".to_owned()));
    let algorithms = SIGNING_ALGORITHMS.iter().map(ToString::to_string).collect();
    let jwt = JwtAuthenticators::new(Vec::new(), algorithms, connect, clock).unwrap();
    let mut file = AuthenticationFile {
        file: WatchedFile::open(path.path()),
        first: AuthenticationConfig::default(),
        jwt: Arc::new(jwt),
        disallowed_issuers: Vec::new(),
    };
    let text = format!("{HEAD}AuthenticationConfiguration\n");
    std::fs::write(path.path(), format!("{text}anonymous: {{enabled: true}}\n")).unwrap();
    let error = file.reload().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "anonymous: Forbidden: changed from initial configuration file"
    );
    std::fs::write(path.path(), text).unwrap();
    assert!(file.reload().await.unwrap());
}
