//! [`Query`]: the parameters of a request.

/// Decoded parameters in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        Self(decoded.collect())
    }

    /// The first value of a parameter; empty if there is none.
    pub(super) fn value(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    /// All values of a parameter.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.0.iter().filter(move |(key, _)| key == name);
        named.map(|(_, value)| value.as_str())
    }

    /// Whether a parameter is true, as Kubernetes decodes it.
    pub(super) fn flag(&self, name: &str) -> bool {
        let mut values = self.all(name);
        values.next().is_some_and(|value| !matches!(value, "false" | "0"))
    }
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let (byte, next) = match (*first, escaped) {
            (b'%', Some(byte)) => (byte, &after[2..]),
            (b'+', _) => (b' ', after),
            (byte, _) => (byte, after),
        };
        bytes.push(byte);
        rest = next;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_in_their_order() {
        let query = Query::parse("command=echo&command=a%26b+c%2&tty=1&follow=true&previous=false&empty");
        assert_eq!(query.all("command").collect::<Vec<_>>(), ["echo", "a&b c%2"]);
        assert_eq!(query.value("tty"), "1");
        assert!(query.flag("follow") && query.flag("empty") && !query.flag("previous"));
        assert_eq!(query.value("absent"), "");
    }
}
