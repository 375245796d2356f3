//! Links of a proxied server: those in its HTML pages and redirects are rewritten to lead through the proxy.
//!
//! A page of a pod that links to `/style.css` means a path of the pod, which for a browser is one of the API server. As in
//! Kubernetes, the path up to `/proxy` is put in front of it. Pages with a `Content-Encoding` are left as they are.

mod html;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderValue, Response};

use crate::body::{Body, ByteStream};
use html::TagScanner;

/// Rewrites the links of one response.
#[derive(Debug, Clone)]
pub(super) struct Links {
    /// The path of the request up to and including `/proxy`.
    pub(super) prefix: String,
    /// Host and port of the backend.
    pub(super) backend: String,
    /// The host that the client has sent the request to.
    pub(super) host: String,
}

/// A page whose links are rewritten as it is read.
struct Page {
    body: Body,
    tags: TagScanner,
    ended: bool,
}

impl Links {
    /// Rewrites the `Location` of a redirect, or the links of a page.
    pub(super) fn rewrite(self, response: &mut Response<Body>) {
        if let Some(location) = response.headers().get(LOCATION) {
            let rewritten = location.to_str().ok().and_then(|url| self.through_proxy(url));
            if let Some(Ok(location)) = rewritten.map(HeaderValue::try_from) {
                response.headers_mut().insert(LOCATION, location);
            }
            return;
        }
        if !is_plain_html(response.headers()) || matches!(response.body(), Body::Empty) {
            return;
        }
        let page = Page {
            body: std::mem::replace(response.body_mut(), Body::Empty),
            tags: TagScanner::new(self),
            ended: false,
        };
        response.headers_mut().remove(CONTENT_LENGTH);
        *response.body_mut() = Body::Stream(Box::pin(page));
    }

    /// The URL through the proxy; `None` if it is relative, or one of another server.
    fn through_proxy(&self, url: &str) -> Option<String> {
        let (origin, path) = split_origin(url);
        let host = origin.rsplit_once("//").map_or("", |(_, host)| host);
        let is_own = host.is_empty() || host == self.backend || host == self.host;
        if !is_own || !path.starts_with('/') {
            return None;
        }
        let origin = if host == self.host { origin } else { "" };
        match path.starts_with(&self.prefix) {
            true => Some(format!("{origin}{path}")),
            false => Some(format!("{origin}{}{path}", self.prefix)),
        }
    }
}

/// Scheme and host of a URL, which may be empty, and the rest.
fn split_origin(url: &str) -> (&str, &str) {
    let after_scheme = match url.split_once("//") {
        Some(("", rest)) => rest,
        Some((scheme, rest)) if is_scheme(scheme) => rest,
        _ => return ("", url),
    };
    let path = after_scheme.find(['/', '?', '#']).unwrap_or(after_scheme.len());
    url.split_at(url.len() - after_scheme.len() + path)
}

fn is_scheme(text: &str) -> bool {
    let name = text.strip_suffix(':').unwrap_or_default();
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

fn is_plain_html(headers: &HeaderMap) -> bool {
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = media_type.unwrap_or_default().split(';').next();
    media_type.is_some_and(|name| name.trim() == "text/html") && !headers.contains_key(CONTENT_ENCODING)
}

impl ByteStream for Page {
    fn poll_chunk(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        while !self.ended {
            let rewritten = match ready!(self.body.poll_bytes(context)) {
                Some(Ok(bytes)) => self.tags.push(&bytes),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    self.ended = true;
                    self.tags.finish()
                }
            };
            if !rewritten.is_empty() {
                return Poll::Ready(Some(Ok(rewritten.into())));
            }
        }
        Poll::Ready(None)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::future::poll_fn;

    use super::*;

    pub(crate) fn links() -> Links {
        Links {
            prefix: "/api/v1/namespaces/a/pods/web:80/proxy".to_owned(),
            backend: "10.1.0.7:80".to_owned(),
            host: "server:6443".to_owned(),
        }
    }

    /// `PREFIX` in the expected URL stands for the path up to `/proxy`.
    #[track_caller]
    fn check(url: &str, expected: Option<&str>) {
        let expected = expected.map(|url| url.replace("PREFIX", &links().prefix));
        assert_eq!(links().through_proxy(url), expected, "{url}");
    }

    #[test]
    fn absolute_paths_of_the_backend_lead_through_the_proxy() {
        check("/", Some("PREFIX/"));
        check("/a/b?c=/d#e", Some("PREFIX/a/b?c=/d#e"));
        check("http://10.1.0.7:80/a", Some("PREFIX/a"));
        check("//10.1.0.7:80/a", Some("PREFIX/a"));
        check("https://server:6443/a", Some("https://server:6443PREFIX/a"));
        check("/api/v1/namespaces/a/pods/web:80/proxy/a", Some("PREFIX/a"));
    }

    #[test]
    fn relative_urls_and_those_of_other_servers_stay() {
        check("a/b", None);
        check("", None);
        check("?a=http://10.1.0.7:80/b", None);
        check("http://10.1.0.7:80", None);
        check("http://10.1.0.8/a", None);
        check("//elsewhere/a", None);
        check("mailto:me", None);
        check("javascript:a//b", None);
    }

    async fn rewrite(
        headers: &[(http::HeaderName, &'static str)],
        body: &'static str,
    ) -> (HeaderMap, String) {
        let mut response = Response::new(Body::Whole(Bytes::from_static(body.as_bytes())));
        for (name, value) in headers {
            response
                .headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        links().rewrite(&mut response);
        let (head, mut body) = response.into_parts();
        let mut text = Vec::new();
        while let Some(bytes) = poll_fn(|context| body.poll_bytes(context)).await {
            text.extend_from_slice(&bytes.unwrap());
        }
        (head.headers, String::from_utf8(text).unwrap())
    }

    const PAGE: &str = r#"<a href="/x">y</a>"#;

    #[tokio::test]
    async fn pages_are_rewritten_and_have_no_length() {
        let headers = [(CONTENT_TYPE, "text/html; charset=utf-8"), (CONTENT_LENGTH, "18")];
        let (headers, text) = rewrite(&headers, PAGE).await;
        let expected = format!(r#"<a href="{}/x">y</a>"#, links().prefix);
        assert_eq!((headers.get(CONTENT_LENGTH), text), (None, expected));
    }

    #[tokio::test]
    async fn other_bodies_are_forwarded_unchanged() {
        assert_eq!(rewrite(&[(CONTENT_TYPE, "text/plain")], PAGE).await.1, PAGE);
        let compressed = [(CONTENT_TYPE, "text/html"), (CONTENT_ENCODING, "br")];
        assert_eq!(rewrite(&compressed, PAGE).await.1, PAGE);
    }

    #[tokio::test]
    async fn a_redirect_leads_through_the_proxy() {
        let (headers, text) = rewrite(&[(CONTENT_TYPE, "text/html"), (LOCATION, "/x")], PAGE).await;
        let expected = format!("{}/x", links().prefix);
        assert_eq!(headers[LOCATION], expected);
        assert_eq!(text, PAGE);
    }
}
