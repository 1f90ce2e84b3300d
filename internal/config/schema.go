package config

// Schema is the JSON Schema of the file. Whatever [Load] takes is valid by it. Load is stricter: it knows ranges of
// durations, and settings that exclude each other.
func Schema() map[string]any {
	root := object("The settings of lockagent serve.")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "lockagent"
	root["type"] = []string{"object", "null"}
	in := map[string]map[string]any{"": root["properties"].(map[string]any)}
	for _, s := range sections {
		section := object(s.Help)
		section["type"] = []string{"object", "null"} // all settings in it may be comments
		in[""][s.Name], in[s.Name] = section, section["properties"].(map[string]any)
	}
	for _, s := range table {
		section, name := s.split()
		in[section][name] = s.schema()
	}
	return root
}

// object is the schema of a mapping without other keys than those that are added to its properties.
func object(help string) map[string]any {
	return map[string]any{
		"type": "object", "description": help, "additionalProperties": false, "properties": map[string]any{},
	}
}

func (s *Setting) schema() map[string]any {
	schema := map[string]any{"description": s.Describe()}
	s.kind.schema(schema)
	if s.Default != "" {
		schema["default"] = s.yamlValue(s.Default)
	}
	if s.Key != rulesKey {
		schema["examples"] = []any{s.yamlValue(s.Example)}
	}
	return schema
}

// Describe is what the setting is about, with what it may be.
func (s *Setting) Describe() string {
	text := s.Help
	if limits := s.Range(); limits != "" {
		text += " It is " + limits + "."
	}
	if zero := s.Zero(); zero != "" {
		text += " 0 " + zero + "."
	}
	if s.DefaultText != "" {
		text += " Default: " + s.DefaultText + "."
	}
	return text
}
