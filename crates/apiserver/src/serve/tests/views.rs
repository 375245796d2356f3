//! Several views on one port, each under a prefix of the path.

use setpoint_auth::Issuer;
use setpoint_auth::keys::SigningKey;

use super::*;

/// The prefix of the second view.
const PREFIX: &str = "/clusters/a";

/// The server's own view, and one below [`PREFIX`].
struct TestViews {
    own: Arc<View>,
    hosted: Arc<View>,
}

impl Views for TestViews {
    fn find(&self, path: &str) -> Result<(Arc<View>, usize), Box<Status>> {
        match path.strip_prefix("/clusters/") {
            None => Ok((self.own.clone(), 0)),
            Some("a") => Ok((self.hosted.clone(), PREFIX.len())),
            Some(rest) if rest.starts_with("a/") => Ok((self.hosted.clone(), PREFIX.len())),
            Some(_) => Err(Box::new(Status::no_such_resource())),
        }
    }
}

/// A server with two views. The second has a CA of its own, which is returned.
async fn two_views() -> (TestServer, TestCa) {
    let (authority, hosted_authority) = (TestCa::new(), TestCa::new());
    let key = SigningKey::from_pem(&SigningKey::generate().unwrap()).unwrap();
    let hosted = View::new(Config {
        client_authorities: ClientAuthorities::new(std::slice::from_ref(&hosted_authority.certificate), &[])
            .unwrap(),
        issuer: Some(Arc::new(Issuer::new("https://issuer", key, Vec::new()))),
        ..config(&hosted_authority)
    });
    let tls = DynamicTls::for_hosted_clusters(identity(&authority)).unwrap();
    let own = config(&authority);
    let views = |own| Arc::new(TestViews { own, hosted }) as Arc<dyn Views>;
    (
        start_with_views(authority, own, tls, views).await,
        hosted_authority,
    )
}

#[tokio::test]
async fn a_prefix_selects_the_view_and_is_not_part_of_its_paths() {
    let (server, hosted) = two_views().await;
    let send = async |path: &str| {
        let admin = hosted.sign("admin", "system:masters");
        let request = format!("GET {PREFIX}{path} HTTP/1.1");
        server.send_as(Some(admin), &request).await
    };
    check(
        &send("/api/v1/namespaces/a/configmaps/m").await,
        200,
        &["\"name\":\"m\""],
    );
    check(&send("/apis").await, 200, &["APIGroupList"]);
    check(&send("").await, 200, &["\"paths\""]);
    check(&send("?a=b").await, 200, &["\"paths\""]);
    check(
        &send("/openapi/v3").await,
        200,
        &["\"/clusters/a/openapi/v3/api/v1?hash="],
    );
    check(
        &send("/openapi/v3/api/v1?hash=old").await,
        301,
        &["location: /clusters/a/openapi/v3/api/v1?hash="],
    );
    check(
        &send("/api/v1/nodes/n/proxy?x=y").await,
        301,
        &["location: /clusters/a/api/v1/nodes/n/proxy/?x=y"],
    );
    check(
        &send("/.well-known/openid-configuration").await,
        200,
        &["/clusters/a/openid/v1/jwks\""],
    );
    check(&send("b/api").await, 404, &["\"kind\":\"Status\""]);
}

#[tokio::test]
async fn a_client_certificate_is_valid_only_in_the_view_of_its_ca() {
    let (server, hosted) = two_views().await;
    let requests = [
        "GET /api/v1/configmaps HTTP/1.1".to_owned(),
        format!("GET {PREFIX}/api/v1/configmaps HTTP/1.1"),
    ];
    let codes = async |authority: &TestCa| {
        let endpoint = server.endpoint(Some(authority.sign("admin", "system:masters")));
        let requests = requests.clone().map(|request| parse_request(&request));
        let sent = move || {
            let mut connection = endpoint.connect(&Caller::Owner).unwrap();
            requests.map(|request| connection.round_trip(&request).unwrap().status)
        };
        tokio::task::spawn_blocking(sent).await.unwrap()
    };
    assert_eq!(codes(&server.authority).await, [200, 401]);
    assert_eq!(codes(&hosted).await, [401, 200]);
}
