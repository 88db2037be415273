//! Options of an address: the part after the question mark.

pub(super) struct Query<'a> {
    options: Vec<(&'a str, Option<&'a str>)>,
    known: Vec<&'static str>,
}

impl<'a> Query<'a> {
    pub(super) fn split(rest: &'a str) -> (&'a str, Query<'a>) {
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let options = query.split('&').filter(|option| !option.is_empty());
        let options = options
            .map(|option| option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value))));
        (place, Query { options: options.collect(), known: Vec::new() })
    }

    fn take(&mut self, name: &'static str) -> Option<Option<&'a str>> {
        self.known.push(name);
        let place = self.options.iter().position(|(option, _)| *option == name)?;
        Some(self.options.remove(place).1)
    }

    pub(super) fn flag(&mut self, name: &'static str) -> Result<bool, String> {
        match self.take(name) {
            None => Ok(false),
            Some(None) => Ok(true),
            Some(Some(value)) => Err(format!("{name} takes no value: remove ={value}")),
        }
    }

    pub(super) fn value(&mut self, name: &'static str) -> Result<Option<String>, String> {
        match self.take(name) {
            None => Ok(None),
            Some(None | Some("")) => Err(format!("{name} needs a value: expected {name}=VALUE")),
            Some(Some(value)) => Ok(Some(value.to_owned())),
        }
    }

    pub(super) fn number(&mut self, name: &'static str, most: u64) -> Result<Option<u64>, String> {
        let Some(value) = self.value(name)? else { return Ok(None) };
        match value.parse() {
            Ok(number) if (1..=most).contains(&number) => Ok(Some(number)),
            _ => Err(format!("invalid {name} {value}: expected 1 to {most}")),
        }
    }

    /// Refuses options that no caller has read.
    pub(super) fn finish(self) -> Result<(), String> {
        let Some((name, _)) = self.options.first() else { return Ok(()) };
        Err(match &self.known[..] {
            [] => format!("unknown option {name}: this address has no options"),
            known => format!("unknown option {name}: expected {}", known.join(", ")),
        })
    }
}
