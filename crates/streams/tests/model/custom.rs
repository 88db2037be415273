//! Custom orders and patterns that behave like built-in ones.

use wirepath_streams::{
    InputState, OutputChoice, OutputState, PollingOrder, Port, Push, PushingOrder, ReadyInputs,
};

use crate::dice::Dice;

/// Round robin over the inputs that exist at the first call.
#[derive(Default)]
pub(crate) struct InTurn {
    inputs: Vec<Port>,
    place: usize,
}

impl PollingOrder for InTurn {
    fn next(&mut self, ready: &ReadyInputs<'_>) -> Option<Port> {
        if self.inputs.is_empty() {
            self.inputs = ready.iter().map(InputState::port).collect();
            self.inputs.sort_unstable();
        }
        ready.get(self.inputs[self.place]).map(InputState::port)
    }

    fn taken(&mut self, input: Port) {
        assert_eq!(input, self.inputs[self.place], "it was not its turn");
        self.place = (self.place + 1) % self.inputs.len();
    }

    fn gone(&mut self, input: Port) {
        let Some(place) = self.inputs.iter().position(|known| *known == input) else { return };
        self.inputs.remove(place);
        self.place = (self.place - usize::from(place < self.place)) % self.inputs.len().max(1);
    }
}

/// Any input that is ready.
pub(crate) struct AnyReady(pub(crate) Dice);

impl PollingOrder for AnyReady {
    fn next(&mut self, ready: &ReadyInputs<'_>) -> Option<Port> {
        let number = self.0.below(ready.iter().count());
        ready.iter().nth(number).map(InputState::port)
    }
}

/// All outputs, by either answer that means all.
pub(crate) struct ToAll(pub(crate) Dice);

impl PushingOrder for ToAll {
    fn survives_outputs(&self) -> bool {
        true
    }

    fn next(&mut self, _: &[u8], outputs: &mut OutputChoice<'_>) -> Push {
        if self.0.one_in(2) {
            return Push::All;
        }
        outputs.iter().for_each(|output| outputs.choose(output.port()));
        Push::Chosen
    }
}

/// One output: each in turn, or any that has room. May request the beginning of records.
pub(crate) struct ToOne {
    pub(crate) dice: Dice,
    pub(crate) head_bytes: usize,
    pub(crate) turns: Option<usize>,
}

impl PushingOrder for ToOne {
    fn head_bytes(&self) -> usize {
        self.head_bytes
    }

    fn next(&mut self, head: &[u8], outputs: &mut OutputChoice<'_>) -> Push {
        assert!(
            head.len() <= self.head_bytes,
            "{} bytes, and {} were asked for",
            head.len(),
            self.head_bytes
        );
        let mut outputs = outputs.iter();
        if let Some(turns) = &mut self.turns {
            *turns += 1;
            let place = (*turns - 1) % outputs.len();
            return outputs.nth(place).map_or(Push::Wait, |output| Push::To(output.port()));
        }
        let with_room: Vec<Port> =
            outputs.filter(|output| output.has_room()).map(OutputState::port).collect();
        match with_room.len() {
            0 => Push::Wait,
            count => Push::To(with_room[self.dice.below(count)]),
        }
    }
}
